import { base64Array, jsonArray, plainArray } from '@licensing/database/arrays'
import type { Sql, Statement } from '@licensing/database/connect'
import { locks } from '@licensing/database/locks'

/** An event about to be written, in the bytes that are published. */
export interface NewOutboxRow {
  accountId: string
  partition: number
  payload: Uint8Array
  traceParent: string | null
}

export interface OutboxRow {
  position: bigint
  /** Where the row lies: it is never updated. */
  place: string
  account_id: string
  partition: number
  payload: Buffer
  trace_parent: string | null
  /** Whether it was committed before the epoch began. */
  precedes_epoch: boolean
}

/** The newest number of each partition. */
export interface LogState {
  numbers: bigint[]
  epoch: string | null
  /** Whether the database was started, restored or replaced since the epoch began: numbers may have been lost. */
  is_suspect: boolean
}

/** A batch about to be added to the log. */
export interface NewBatch {
  partition: number
  number: bigint
  bytes: Uint8Array
}

export function insertEvents(tx: Sql, events: NewOutboxRow[]): Statement {
  return tx`
    insert into outbox (account_id, partition, payload, trace_parent)
    select account_id, partition, decode(payload, 'base64'), trace_parent
    from unnest(
      ${plainArray(events.map((event) => event.accountId))}::text[],
      ${plainArray(events.map((event) => event.partition))}::smallint[],
      ${base64Array(events.map((event) => event.payload))}::text[],
      ${plainArray(events.map((event) => event.traceParent))}::text[]
    ) with ordinality as event (account_id, partition, payload, trace_parent, place)
    order by place`
}

export const begin = (connection: Sql): Statement => connection`begin`
export const commit = (connection: Sql): Statement => connection`commit`
export const rollback = (connection: Sql): Statement => connection`rollback`

/**
 * Until the transaction ends no other relay numbers events of this database, and the outbox is read by its indexes alone.
 * The outbox is empty most of the time. A plan that is made then may read and sort all of it, and is kept when it has
 * grown: with 40,000 rows such a plan takes 2.5 s.
 *
 * @returns not `locked` if another relay is at work; then `listShares` in the same transaction finds nothing
 */
export function lockRelay(tx: Sql): Statement<{ locked: boolean }> {
  return tx<{ locked: boolean }[]>`
    select locked, set_config('relay.locked', locked::text, true),
      set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true),
      set_config('enable_sort', 'off', true)
    from (select pg_try_advisory_xact_lock(${locks.relay}) as locked) relay`
}

/** The server's start, the database and the table's file: one of them differs after a restart, a failover or a restore. */
const incarnation = (sql: Sql) => sql`(
  select concat_ws(' ', extract(epoch from pg_postmaster_start_time()), oid, pg_relation_filenode('event_log_state'))
  from pg_database where datname = current_database()
)`

export function findState(sql: Sql): Statement<LogState> {
  return sql<LogState[]>`
    select numbers, epoch, incarnation is distinct from ${incarnation(sql)} as is_suspect from event_log_state`
}

/** Whether a look at the outbox would number events or begin an epoch. */
export async function hasWork(sql: Sql): Promise<boolean> {
  const [row] = await sql<{ found: boolean }[]>`
    select exists (select from outbox) or incarnation is distinct from ${incarnation(sql)} as found from event_log_state`
  return row!.found
}

/**
 * Events that have no number: the first ones of each account, accounts by name. An account's rows are in the order of their
 * commits. By both columns, so that only the index of accounts gives the order: the index of positions would pass over the
 * rows of all other accounts. Sent behind `lockRelay`, without waiting for its answer.
 *
 * @param after the account after which to begin
 */
export function listShares(
  tx: Sql,
  { after, each, limit }: { after: string; each: number; limit: number },
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
    select o.* from waiting w cross join event_log_state state cross join lateral (
      select position, ctid::text as place, account_id, partition, payload, trace_parent,
        coalesce(created_at < state.began_at, true) as precedes_epoch
      from outbox where account_id between w.account and w.account
      order by account_id, position limit ${each}
    ) o
    where current_setting('relay.locked') = 'true' limit ${limit}`
}

/**
 * Moves events from the outbox to the log: all of it, or nothing if the state is not `from`.
 *
 * The outbox rows are named by their places. By their positions PostgreSQL read all of the other index if it believed
 * that the table is empty: with 200,000 rows 1.2 ms for each batch. A row that has come into a place since lies after all
 * of these; `+ 0` keeps the indexes out of it.
 *
 * @returns a row for each batch
 */
export function moveToLog(
  tx: Sql,
  move: { from: LogState; to: bigint[]; rows: OutboxRow[]; batches: NewBatch[] },
): Statement {
  const { from, to, rows, batches } = move
  const last = rows.map(({ position }) => position).reduce((a, b) => (a > b ? a : b), 0n)
  return tx`
    with moved as (
      update event_log_state set numbers = ${plainArray(to)}::bigint[]
      where numbers = ${plainArray(from.numbers)}::bigint[] and epoch = ${from.epoch} returning 1
    ), numbered as (
      delete from outbox
      where ctid = any(${jsonArray(rows.map(({ place }) => place))}::tid[]) and position + 0 <= ${last}
        and exists (select from moved)
    )
    insert into event_log (slot, partition, number, batch)
    select ${slotOf(tx)}, partition, number, decode(batch, 'base64')
    from unnest(
      ${plainArray(batches.map(({ partition }) => partition))}::smallint[],
      ${plainArray(batches.map(({ number }) => number))}::bigint[],
      ${base64Array(batches.map(({ bytes }) => bytes))}::text[]
    ) as added (partition, number, batch)
    where exists (select from moved)`
}

/** The table of the log that takes today's batches. */
export const slotOf = (sql: Sql) => sql`(extract(epoch from now())::bigint / 86400 % 8)::smallint`

/** Begins an epoch at the next number of each partition. Sent behind `lockRelay` in the same transaction. */
export async function beginEpoch(tx: Sql, epoch: string): Promise<void> {
  await tx`
    with begun as (
      update event_log_state set epoch = ${epoch}, began_at = clock_timestamp(), incarnation = ${incarnation(tx)}
      where current_setting('relay.locked') = 'true' returning numbers
    )
    insert into event_log_epochs (epoch, first_numbers)
    select ${epoch}, array(select number + 1 from unnest(numbers) with ordinality as each (number, at) order by at)
    from begun`
}

/** Age of the oldest event that has no number, in seconds; 0 if none waits. */
export async function oldestAge(sql: Sql): Promise<number> {
  const [row] = await sql<{ age_seconds: number }[]>`
    select extract(epoch from clock_timestamp() - created_at)::float8 as age_seconds
    from outbox order by position limit 1`
  return row?.age_seconds ?? 0
}
