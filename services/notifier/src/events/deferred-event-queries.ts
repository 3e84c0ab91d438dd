import type { Sql, Statement } from '@licensing/database/connect'
import { base64Array, plainArray } from '@licensing/database/arrays'

export interface DeferredEvent {
  account_id: string
  payload: Uint8Array
  trace_parent: string | null
}

/** Defers events: they are recorded after the account's earlier deferred events. */
export async function insertDeferred(sql: Sql, events: DeferredEvent[]): Promise<void> {
  await sql`
    insert into deferred_events (account_id, payload, trace_parent)
    select event.account_id, decode(event.payload, 'base64'), event.trace_parent from unnest(
      ${plainArray(events.map((event) => event.account_id))}::text[],
      ${base64Array(events.map((event) => event.payload))}::text[],
      ${plainArray(events.map((event) => event.trace_parent))}::text[]
    ) with ordinality as event (account_id, payload, trace_parent, place)
    order by event.place`
}

/** Whether an account has deferred events. If so, its next events have to follow them. */
export function hasDeferred(sql: Sql, accountId: Statement): Statement {
  // Reads one row from the index. For `exists` the planner would choose a join that reads all deferred events.
  return sql`(
    select position from deferred_events d where d.account_id = ${accountId} order by d.position limit 1
  ) is not null`
}

/** The next account after `after` that has deferred events and is not in `except`. */
export async function nextDeferredAccount(
  sql: Sql,
  after: string,
  except: string[],
): Promise<string | undefined> {
  // Reads one row of each account from the index, however many events it has.
  const [row] = await sql<{ account_id: string }[]>`
    with recursive visited (account_id) as (
      (select account_id from deferred_events where account_id > ${after} order by account_id limit 1)
      union all
      select (
        select d.account_id from deferred_events d where d.account_id > visited.account_id
        order by d.account_id limit 1
      )
      from visited where visited.account_id = any(${except}::text[])
    )
    select account_id from visited where account_id <> all(${except}::text[])`
  return row?.account_id
}

/** @returns false if another replica is recording deferred events of this account */
export async function lockDeferred(sql: Sql, accountId: string): Promise<boolean> {
  const [row] = await sql<{ locked: boolean }[]>`
    select pg_try_advisory_xact_lock(hashtextextended(${`deferred_events:${accountId}`}, 0)) as locked`
  return row!.locked
}

/** Deletes and returns an account's first deferred events, in their order. */
export async function takeDeferred(sql: Sql, accountId: string, limit: number): Promise<DeferredEvent[]> {
  const rows = await sql<(DeferredEvent & { position: bigint })[]>`
    delete from deferred_events where account_id = ${accountId} and position = any(array(
      select position from deferred_events where account_id = ${accountId} order by position limit ${limit}
    ))
    returning account_id, position, payload, trace_parent`
  return rows.toSorted((a, b) => (a.position < b.position ? -1 : 1))
}
