import { base64Array, jsonArray, plainArray } from '@licensing/database/arrays'
import type { Sql, Statement } from '@licensing/database/connect'
import { locks } from '@licensing/database/locks'

/** An event about to be written, in the bytes that are published. */
export interface NewOutboxRow {
  id: string
  accountId: string
  partition: number
  name: string
  payload: Uint8Array
}

export interface OutboxRow {
  position: bigint
  /** Where the row lies: it is never updated. */
  place: string
  account_id: string
  event_id: string
  partition: number
  name: string
  payload: Buffer
  trace_parent: string | null
}

export function insertEvents(tx: Sql, events: NewOutboxRow[], traceParent: string | null): Statement {
  return tx`
    insert into outbox (event_id, account_id, partition, name, payload, trace_parent)
    select event_id, account_id, partition, name, decode(payload, 'base64'), ${traceParent}
    from unnest(
      ${plainArray(events.map((event) => event.id))}::text[],
      ${plainArray(events.map((event) => event.accountId))}::text[],
      ${plainArray(events.map((event) => event.partition))}::smallint[],
      ${plainArray(events.map((event) => event.name))}::text[],
      ${base64Array(events.map((event) => event.payload))}::text[]
    ) with ordinality as event (event_id, account_id, partition, name, payload, place)
    order by place`
}

export const begin = (connection: Sql): Statement => connection`begin`
export const commit = (connection: Sql): Statement => connection`commit`
export const rollback = (connection: Sql): Statement => connection`rollback`

/**
 * Until the transaction ends no other relay publishes from this database, and the outbox is read by its indexes alone.
 * It is empty most of the time. A plan that is made then may read and sort all of it, and is kept when it has grown:
 * with 40,000 rows such a plan takes 2.5 s. The commit does not wait for the disk: where PostgreSQL crashes and the deletes
 * are lost, the events are published again under the same ids.
 *
 * @returns not `locked` where another publishes; then `listShares` in the same transaction finds nothing
 */
export function lockRelay(tx: Sql): Statement<{ locked: boolean }> {
  return tx<{ locked: boolean }[]>`
    select locked, set_config('relay.locked', locked::text, true),
      set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true),
      set_config('enable_sort', 'off', true), set_config('synchronous_commit', 'off', true)
    from (select pg_try_advisory_xact_lock(${locks.relay}) as locked) relay`
}

const columns = (sql: Sql) =>
  sql`position, ctid::text as place, account_id, event_id, partition, name, payload, trace_parent`

/**
 * Events to publish: the first ones of each account, accounts by name. An account's rows are in the order of their
 * commits. By both columns, so that only the index of accounts gives the order: the one of positions would pass over the
 * rows of all other accounts. Sent behind `lockRelay`, without waiting for its answer.
 *
 * @param after the account after which to begin
 * @param without accounts that have had their share
 */
export function listShares(
  tx: Sql,
  { after, without, each, limit }: { after: string; without: string[]; each: number; limit: number },
): Statement<OutboxRow> {
  const next = (before: Statement) => tx`(
    select account_id from outbox where account_id > ${before} order by account_id limit 1
  )`
  return tx<OutboxRow[]>`
    with recursive waiting (account) as (
      ${next(tx`${after}`)}
      union all
      select ${next(tx`w.account`)} from waiting w where w.account is not null
    )
    select o.* from waiting w cross join lateral (
      select ${columns(tx)} from outbox where account_id between w.account and w.account
      order by account_id, position limit ${each}
    ) o
    where w.account <> all(${without}) and current_setting('relay.locked') = 'true' limit ${limit}`
}

/** How an account's part of the outbox grows. */
export interface Growth {
  account_id: string
  /** Of its newest event; null where none waits. */
  newest: bigint | null
  /** Whether at least so many of its events were committed after `after`. */
  is_flood: boolean
}

/** @param accounts each with the position after which its events are counted; null where none are to be counted */
export function findGrowth(
  tx: Sql,
  accounts: { id: string; after: bigint | null }[],
  floodFrom: number,
): Statement<Growth> {
  return tx<Growth[]>`
    select loud.account_id, newest.position as newest, later.position is not null as is_flood
    from unnest(
      ${plainArray(accounts.map(({ id }) => id))}::text[], ${plainArray(accounts.map(({ after }) => after))}::bigint[]
    ) as loud (account_id, after)
    left join lateral (
      select position from outbox where account_id between loud.account_id and loud.account_id
      order by account_id desc, position desc limit 1
    ) newest on true
    left join lateral (
      select position from outbox
      where account_id between loud.account_id and loud.account_id and position > loud.after
      order by account_id, position limit 1 offset ${floodFrom - 1}
    ) later on true`
}

/** Whether events wait from before the outbox named their accounts: a stop of NATS has kept them over an upgrade. */
export async function hasUnnamed(tx: Sql): Promise<boolean> {
  const rows = await tx`select from outbox where account_id = '' limit 1`
  return rows.length > 0
}

/** Events to publish, of all accounts in the order of their commits. */
export async function listInOrder(tx: Sql, limit: number): Promise<OutboxRow[]> {
  return tx<OutboxRow[]>`select ${columns(tx)} from outbox order by position limit ${limit}`
}

/** Age of the oldest event in seconds; 0 where none waits. */
export async function oldestAge(sql: Sql): Promise<number> {
  const [row] = await sql<{ age_seconds: number }[]>`
    select extract(epoch from clock_timestamp() - created_at)::float8 as age_seconds
    from outbox order by position limit 1`
  return row?.age_seconds ?? 0
}

/**
 * By their places. By their positions PostgreSQL read all of the other index where it believed that there is nothing: with
 * 200,000 rows 1.2 ms for each batch. A row that has come into a place since lies after all of these; `+ 0` keeps the
 * indexes out of it.
 */
export function deletePublished(tx: Sql, rows: OutboxRow[]): Statement {
  const last = rows.map(({ position }) => position).reduce((a, b) => (a > b ? a : b), 0n)
  return tx`
    delete from outbox
    where ctid = any(${jsonArray(rows.map(({ place }) => place))}::tid[]) and position + 0 <= ${last}`
}
