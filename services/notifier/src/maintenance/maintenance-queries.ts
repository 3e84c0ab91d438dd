import type { Sql } from '@licensing/database/connect'
import { stays } from '@licensing/moves/move-queries'

export async function listEndpointsToCleanUp(sql: Sql): Promise<string[]> {
  const rows = await sql<
    { id: string }[]
  >`select id from endpoints where is_cleanup_due and ${stays(sql, 'account_id')} limit 100`
  return rows.map(({ id }) => id)
}

const maxMeasured = 500

/** When the oldest due delivery was due, by kind of attempt. Only the first due delivery of each endpoint is read. */
export async function findOldestDue(
  sql: Sql,
  now: Date,
): Promise<{ first: Date | null; later: Date | null }> {
  const [row] = await sql<{ first: Date | null; later: Date | null }[]>`
    select min(d.due_at) filter (where d.attempt_count = 0) as first,
      min(d.due_at) filter (where d.attempt_count > 0) as later
    from (
      select endpoint_id from waiting_endpoints where next_due_at <= ${now} order by next_due_at limit ${maxMeasured}
    ) w
    cross join lateral (
      select due_at, attempt_count from deliveries
      where endpoint_id = w.endpoint_id and claim_id is null and due_at <= ${now} order by due_at limit 1
    ) d`
  return row ?? { first: null, later: null }
}

/** Corrects `waiting_endpoints` if an endpoint with waiting deliveries is missing or has a late next_due_at. @returns how many */
export async function restoreWaitingEndpoints(tx: Sql): Promise<number> {
  // Reads one row of each endpoint from the index, however many deliveries it has. The 5 seconds are for transactions that
  // have not committed yet.
  const restored = await tx`
    with recursive endpoint as (
      (select endpoint_id, due_at from deliveries where claim_id is null and due_at is not null
        order by endpoint_id, due_at limit 1)
      union all
      select next.endpoint_id, next.due_at from endpoint cross join lateral (
        select endpoint_id, due_at from deliveries
        where endpoint_id > endpoint.endpoint_id and claim_id is null and due_at is not null
        order by endpoint_id, due_at limit 1
      ) next
    )
    insert into waiting_endpoints (endpoint_id, account_id, next_due_at)
    select endpoint.endpoint_id, e.account_id, endpoint.due_at from endpoint
    join endpoints e on e.id = endpoint.endpoint_id and e.status = 'enabled' and not e.paused and ${stays(tx, 'e.account_id')}
    left join waiting_endpoints w on w.endpoint_id = endpoint.endpoint_id
    where w.next_due_at is null or w.next_due_at > endpoint.due_at + interval '5 seconds'
    order by endpoint.endpoint_id
    on conflict (endpoint_id) do update set next_due_at = excluded.next_due_at
    where waiting_endpoints.next_due_at > excluded.next_due_at`
  return restored.count
}
