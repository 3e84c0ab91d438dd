import type { Sql, Statement } from '@licensing/database/connect'
import { stays } from '@licensing/moves/move-queries'
import { createdIn } from '../deliveries/delivery-log-queries.ts'
import { inPending } from '../delivery-states.ts'

export async function listEndpointsToCleanUp(sql: Sql): Promise<string[]> {
  const rows = await sql<
    { id: string }[]
  >`select id from endpoints where is_cleanup_due and ${stays(sql, 'account_id')} limit 100`
  return rows.map(({ id }) => id)
}

const ended = (sql: Sql, before: Date): Statement =>
  sql`d.status not ${sql.unsafe(inPending)} and d.due_at is null and d.claim_id is null ${createdIn(sql, { until: before })}`

/** Endpoints after this one, in order, with a delivery that was created before a time and has ended. */
export async function listEndpointsWithEnded(sql: Sql, before: Date, after: string): Promise<string[]> {
  const rows = await sql<{ id: string }[]>`
    select id from endpoints e where id > ${after} and ${stays(sql, 'account_id')}
      and exists (select from deliveries d where d.endpoint_id = e.id and ${ended(sql, before)})
    order by id limit 100`
  return rows.map(({ id }) => id)
}

const maxDeleted = 1_000

/**
 * Deletes some ended deliveries of an endpoint after this one, and their attempts. It leaves out those that another transaction
 * has locked.
 *
 * @returns the id of the last one; null if there are no more
 */
export async function deleteEndedDeliveries(
  sql: Sql,
  of: { endpointId: string; before: Date; after: string },
): Promise<string | null> {
  // The id is compared so that the index entries of deleted deliveries are not read again while an old snapshot keeps them.
  const [row] = await sql<{ last: string | null }[]>`
    with old as materialized (
      select d.ctid as row, d.id from deliveries d
      where d.endpoint_id = ${of.endpointId} and d.id > ${of.after} and ${ended(sql, of.before)}
      order by d.id limit ${maxDeleted} for update skip locked
    ), deleted as (
      delete from deliveries where ctid = any(array(select row from old)) returning id
    ), attempted as (
      delete from attempts where delivery_id = any(array(select id from deleted))
    )
    select max(id) as last from old`
  return row!.last
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
