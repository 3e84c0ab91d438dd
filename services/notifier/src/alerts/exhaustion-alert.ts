import type { Sql } from '@licensing/database/connect'
import { mostAttempts } from '../deliveries/backoff.ts'
import { findExhausted } from './alert-queries.ts'
import type { NewAlert } from './alert-queries.ts'

/** Interface 6.3: an endpoint that exhausts retries is disabled permanently and an alert is sent. */
export async function exhaustionAlert(
  tx: Sql,
  last: {
    applicationId: string
    deliveryId: string
    endpointId: string
    responseCode: number | null
    error: string | null
  },
): Promise<NewAlert> {
  const {
    account_id: accountId,
    url,
    event_id: eventId,
    event_type: eventType,
  } = await findExhausted(tx, last)
  const why = last.responseCode === null ? (last.error ?? 'no answer') : `status ${last.responseCode}`
  return {
    kind: 'endpoint_disabled',
    accountId,
    applicationId: last.applicationId,
    endpointId: last.endpointId,
    subject: `Webhook endpoint disabled: ${new URL(url).host}`,
    text: [
      `The webhook endpoint ${last.endpointId} (${url}) of application ${last.applicationId} has been disabled.`,
      `All ${mostAttempts} attempts to deliver event ${eventId} (${eventType}) failed; the last one with: ${why}.`,
      '',
      'A disabled endpoint cannot be resumed. Register a new endpoint, which gets a new secret, and have it sent what',
      'was missed: POST /v1/apps/{app_id}/webhook-endpoints/{endpoint_id}/recover.',
    ].join('\n'),
  }
}
