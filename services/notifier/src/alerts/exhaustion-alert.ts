import type { Sql } from '@licensing/database/connect'
import { mostAttempts } from '../deliveries/backoff.ts'
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
  const [row] = await tx<{ accountId: string; url: string; eventId: string; eventType: string }[]>`
    select d.account_id as "accountId", e.url, d.event_id as "eventId", d.event_type as "eventType"
    from deliveries d join endpoints e on e.id = d.endpoint_id
    where d.application_id = ${last.applicationId} and d.id = ${last.deliveryId}`
  const { accountId, url, eventId, eventType } = row!
  const why = last.responseCode === null ? (last.error ?? 'no answer') : `status ${last.responseCode}`
  return {
    accountId,
    subject: `Webhook endpoint disabled: ${new URL(url).host}`,
    text: [
      `The webhook endpoint ${last.endpointId} (${url}) of application ${last.applicationId} has been disabled.`,
      `All ${mostAttempts} attempts to deliver event ${eventId} (${eventType}) failed; the last one with: ${why}.`,
      '',
      'A disabled endpoint cannot be resumed. Register a new endpoint, which gets a new secret, and replay to it what',
      'was missed from the list of deliveries, or read it from GET /v1/events.',
    ].join('\n'),
  }
}
