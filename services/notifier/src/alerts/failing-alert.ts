import type { Sql } from '@licensing/database/connect'
import { mostAttempts } from '../deliveries/backoff.ts'
import { findEndpointOwners } from '../endpoints/endpoint-queries.ts'
import type { EndpointHealth } from '../tallies/endpoint-health.ts'
import type { NewAlert } from './alert-queries.ts'

/** An endpoint has failed so often in a row that its vendor should look at it. */
export async function failingAlerts(tx: Sql, failing: EndpointHealth[]): Promise<NewAlert[]> {
  if (failing.length === 0) return []
  const endpoints = await findEndpointOwners(
    tx,
    failing.map((health) => health.endpoint_id),
  )
  return failing.flatMap(({ endpoint_id: endpointId, failures, failing_since: failingSince }) => {
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
          `The last ${failures} attempts to deliver events to the webhook endpoint ${endpointId} (${url}) of application ${applicationId} failed, since ${failingSince!.toISOString()}.`,
          `Each event is tried ${mostAttempts} times; when the last attempt of one fails, nothing is sent to the endpoint any more.`,
          'The list of deliveries says how each attempt failed.',
        ].join('\n'),
      } satisfies NewAlert,
    ]
  })
}
