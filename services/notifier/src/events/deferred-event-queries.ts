import type { Sql, Statement } from '@licensing/database/connect'
import { base64Array, plainArray } from '@licensing/database/arrays'

export interface DeferredEvent {
  account_id: string
  payload: Uint8Array
  trace_parent: string | null
}

/** Puts events at the end of their accounts' lines, in their order. */
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

/** Whether events of an account wait in line: the next ones have to follow them. */
export function isInLine(sql: Sql, accountId: Statement): Statement {
  // By the index, however long the lines are: of "exists" the planner would make a join that reads all of them.
  return sql`(
    select position from deferred_events d where d.account_id = ${accountId} order by d.position limit 1
  ) is not null`
}

/** The account after this one that has events in line, and is none of `except`. */
export async function nextDeferredAccount(
  sql: Sql,
  after: string,
  except: string[],
): Promise<string | undefined> {
  // From account to account by the index: a line that is passed over is not read, however long it is.
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

/** False where another replica records events of this account. */
export async function lockDeferred(sql: Sql, accountId: string): Promise<boolean> {
  const [row] = await sql<{ locked: boolean }[]>`
    select pg_try_advisory_xact_lock(hashtextextended(${`deferred_events:${accountId}`}, 0)) as locked`
  return row!.locked
}

/** Takes the first events out of an account's line, in their order. */
export async function takeDeferred(sql: Sql, accountId: string, limit: number): Promise<DeferredEvent[]> {
  const rows = await sql<(DeferredEvent & { position: bigint })[]>`
    delete from deferred_events where account_id = ${accountId} and position = any(array(
      select position from deferred_events where account_id = ${accountId} order by position limit ${limit}
    ))
    returning account_id, position, payload, trace_parent`
  return rows.toSorted((a, b) => (a.position < b.position ? -1 : 1))
}
