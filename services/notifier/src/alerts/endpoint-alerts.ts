import type { Sql } from '@licensing/database/connect'
import { maxAttempts } from '../deliveries/backoff.ts'
import { findEndpointOwners } from '../endpoints/endpoint-queries.ts'
import type { EndpointRow, RetrySchedule } from '../endpoints/endpoint-queries.ts'
import { findExhausted, insertAlerts } from './alert-queries.ts'
import type { NewAlert } from './alert-queries.ts'
import { markDisablingReported, markUnreadableReported } from './endpoint-alert-queries.ts'

/** An endpoint that exhausts retries is disabled permanently and an alert is sent (docs/guides/webhooks.md, "Retry schedule"). */
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
      `All ${maxAttempts} attempts to deliver event ${eventId} (${eventType}) failed; the last one with: ${why}.`,
      '',
      'A disabled endpoint cannot be resumed. Register a new endpoint, which gets a new secret, and have',
      'the missed events sent to it: POST /v1/apps/{app_id}/webhook-endpoints/{endpoint_id}/recover.',
    ].join('\n'),
  }
}

/** An endpoint whose failures its vendor has not been alerted about. */
export interface Failing {
  endpoint_id: string
  /** How many attempts failed in a row, and when the first of them ended. */
  failures: number
  failing_since: Date
  /** The endpoint answered `410 Gone`. */
  is_gone: boolean
}

/** Alerts about endpoints that failed several times in a row, or answered 410 Gone. */
export async function failingAlerts(tx: Sql, failing: Failing[]): Promise<NewAlert[]> {
  if (failing.length === 0) return []
  const endpoints = await findEndpointOwners(
    tx,
    failing.map((health) => health.endpoint_id),
  )
  return failing.flatMap((health) => {
    const { endpoint_id: endpointId, failures, failing_since: failingSince } = health
    const endpoint = endpoints.find(({ id }) => id === endpointId)
    if (!endpoint) return []
    const { account_id: accountId, application_id: applicationId, url } = endpoint
    return [
      {
        kind: 'endpoint_failing',
        accountId,
        applicationId,
        endpointId,
        subject: `Webhook endpoint failing: ${new URL(url).host}`,
        text: [
          health.is_gone
            ? `The webhook endpoint ${endpointId} (${url}) of application ${applicationId} answered 410 Gone. Its deliveries fail since ${failingSince.toISOString()}. If the endpoint no longer exists, delete it.`
            : `The last ${failures} attempts to deliver events to the webhook endpoint ${endpointId} (${url}) of application ${applicationId} failed, since ${failingSince.toISOString()}.`,
          `Each event is tried ${maxAttempts} times; if all attempts of an event fail, nothing more is sent to the endpoint.`,
          'The list of deliveries says how each attempt failed.',
        ].join('\n'),
      } satisfies NewAlert,
    ]
  })
}

/** The vendor is warned when a delivery has failed this often, and its last attempt is due within this time. */
export const failuresToWarn = 7
const warnBeforeMs = 12 * 3_600_000
const maxWarned = 1_000

/** Alerts the vendors of endpoints that are disabled soon. @returns how many alerts it made */
export async function reportDisabling(tx: Sql, schedule: RetrySchedule): Promise<number> {
  const before = new Date(schedule.now.getTime() + warnBeforeMs)
  const limits = { before, minFailures: failuresToWarn, limit: maxWarned }
  const marked = await markDisablingReported(tx, limits, schedule)
  const alerts = marked.map(
    ({ id, account_id: accountId, application_id: applicationId, url, ...found }): NewAlert => ({
      kind: 'endpoint_disabling',
      accountId,
      applicationId,
      endpointId: id,
      // Its words differ from those of the alert about the end itself.
      subject: `Webhook endpoint close to its end: ${new URL(url).host}`,
      text: [
        `Deliveries to the webhook endpoint ${id} (${url}) of application ${applicationId} fail since ${found.failing_since.toISOString()}: ${found.failures} of ${maxAttempts} attempts to deliver an event have failed.`,
        `If the others fail too, nothing more is ever sent to the endpoint from about ${found.disables_at.toISOString()} on.`,
        'Repair the endpoint, or change its address: PATCH /v1/apps/{app_id}/webhook-endpoints/{endpoint_id}.',
        'If that takes longer, pause it: its deliveries then wait, and none fails.',
      ].join('\n'),
    }),
  )
  await insertAlerts(tx, alerts)
  return alerts.length
}

/**
 * Alerts the vendors of at most `limit` endpoints whose secrets cannot be decrypted, once for each secret. Endpoints without
 * a delivery that was due before a time are left out.
 *
 * @returns how many alerts it made
 */
export async function reportUnreadable(
  tx: Sql,
  endpoints: Pick<EndpointRow, 'id' | 'generation'>[],
  limits: { dueBefore: Date; limit: number },
): Promise<number> {
  const marked = await markUnreadableReported(tx, endpoints, limits)
  const alerts = marked.map(
    ({ id, account_id: accountId, application_id: applicationId, url }): NewAlert => ({
      kind: 'endpoint_failing',
      accountId,
      applicationId,
      endpointId: id,
      subject: 'The signing secret or the headers of a webhook endpoint cannot be read',
      text: [
        `The service cannot read the signing secret or the headers of the webhook endpoint ${id} (${url}) of application ${applicationId}.`,
        'Nothing is sent to the endpoint. Its events are kept, and are sent as soon as both can be read.',
        'Rotate the secret, and use the new one in your backend: POST /v1/apps/{app_id}/webhook-endpoints/{endpoint_id}/rotate-secret.',
        'If the endpoint has headers, set them again: PATCH /v1/apps/{app_id}/webhook-endpoints/{endpoint_id}.',
        'Or ask the operator of the service to configure the former encryption key again.',
      ].join('\n'),
    }),
  )
  await insertAlerts(tx, alerts)
  return alerts.length
}
