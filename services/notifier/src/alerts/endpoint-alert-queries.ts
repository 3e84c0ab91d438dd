import type { Sql } from '@licensing/database/connect'
import { rowsOf } from '@licensing/database/row-queries'
import { stays } from '@licensing/moves/move-queries'
import { firstToEnd } from '../endpoints/endpoint-queries.ts'
import type { EndpointOwner, EndpointRow, RetrySchedule } from '../endpoints/endpoint-queries.ts'
import { inPending } from '../delivery-states.ts'

/**
 * Records that the vendors of at most `limit` of these endpoints are alerted about secrets that cannot be decrypted.
 * Endpoints without a delivery that was due before a time are left out.
 *
 * @returns the endpoints for which that was not recorded before
 */
export async function markUnreadableReported(
  tx: Sql,
  endpoints: Pick<EndpointRow, 'id' | 'generation'>[],
  { dueBefore, limit }: { dueBefore: Date; limit: number },
): Promise<EndpointOwner[]> {
  const unreadable = endpoints.map(({ id, generation }) => ({ id, generation }))
  return tx<EndpointOwner[]>`
    update endpoints e set unreadable_reported = e.generation
    from (
      select known.id from endpoints known
      join ${rowsOf(tx, { id: 'text', generation: 'bigint' }, unreadable)} unreadable
        on unreadable.id = known.id and unreadable.generation = known.generation
      join waiting_endpoints w on w.endpoint_id = known.id and w.next_due_at < ${dueBefore}
      where known.status = 'enabled' and known.unreadable_reported is distinct from known.generation
      order by known.id limit ${limit} for update of known
    ) unreported
    where e.id = unreported.id
    returning e.id, e.account_id, e.application_id, e.url`
}

/** An endpoint that will be disabled soon. */
export interface DisablingEndpoint extends EndpointOwner {
  failures: number
  failing_since: Date
  disables_at: Date
}

/**
 * Records that the vendors of endpoints that are disabled before a time are alerted, if the delivery that ends first has
 * failed often enough, and began to fail after the last such alert.
 *
 * @returns the endpoints for which that was not recorded before
 */
export async function markDisablingReported(
  tx: Sql,
  { before, minFailures, limit }: { before: Date; minFailures: number; limit: number },
  schedule: RetrySchedule,
): Promise<DisablingEndpoint[]> {
  // Reads one row of the index for each endpoint with failed deliveries, however many it has.
  return tx<DisablingEndpoint[]>`
    with recursive failing (endpoint_id) as (
      (select endpoint_id from deliveries where status ${tx.unsafe(inPending)} and scheduled_attempts >= 1
        order by endpoint_id limit 1)
      union all
      select (
        select endpoint_id from deliveries
        where status ${tx.unsafe(inPending)} and scheduled_attempts >= 1 and endpoint_id > failing.endpoint_id
        order by endpoint_id limit 1
      ) from failing where endpoint_id is not null
    ), ending as materialized (
      select e.id, ending.failures, ending.ends_at, first.at
      from failing join endpoints e on e.id = failing.endpoint_id and ${stays(tx, 'e.account_id')}
      cross join lateral (${firstToEnd(tx, schedule)}) ending
      join attempts first on first.delivery_id = ending.id and first.attempt = 1
      where ending.ends_at < ${before} and ending.failures >= ${minFailures}::int
        and (e.disabling_reported_at is null or e.disabling_reported_at < first.at)
      order by e.id limit ${limit}
    )
    update endpoints e set disabling_reported_at = ${schedule.now} from ending
    where e.id = ending.id and e.status = 'enabled'
      and (e.disabling_reported_at is null or e.disabling_reported_at < ending.at)
    returning e.id, e.account_id, e.application_id, e.url, ending.failures::int, ending.at as failing_since,
      ending.ends_at as disables_at`
}
