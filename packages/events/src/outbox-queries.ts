import { base64Array, plainArray } from '@licensing/database/arrays'
import type { Sql, Statement } from '@licensing/database/connect'

/** An event about to be written, in the bytes that are published. */
export interface NewOutboxRow {
  accountId: string
  partition: number
  payload: Uint8Array
  traceParent: string | null
}

export interface OutboxRow {
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
  epoch: string
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

/** The server's start, the database and the table's file: one of them differs after a restart, a failover or a restore. */
const incarnation = (sql: Sql) => sql`(
  select concat_ws(' ', extract(epoch from pg_postmaster_start_time()), oid, pg_relation_filenode('event_log_state'))
  from pg_database where datname = current_database()
)`

/**
 * Until the transaction ends, no other relay numbers events of this database, and the outbox is read by its indexes alone.
 * The outbox is empty most of the time. A plan that is made then may read and sort all of it, and is kept when it has
 * grown: with 40,000 rows such a plan takes 2.5 s.
 */
export function lockState(tx: Sql): Statement<LogState> {
  return tx<LogState[]>`
    select numbers, epoch, incarnation is distinct from ${incarnation(tx)} as is_suspect,
      set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true),
      set_config('enable_sort', 'off', true)
    from event_log_state for update`
}

/**
 * Takes the first events of each account out of the outbox, accounts by name. An account's events are in the order of their
 * commits. The order is by both columns, so that the index of accounts gives it: the index of positions would pass over the
 * rows of all other accounts.
 *
 * @param after the account after which to begin
 */
export function takeShares(
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
    ), share as materialized (
      select o.place, o.account_id, o.partition, o.payload, o.trace_parent, o.created_at
      from waiting w cross join lateral (
        select ctid as place, account_id, partition, payload, trace_parent, created_at
        from outbox where account_id between w.account and w.account
        order by account_id, position limit ${each}
      ) o limit ${limit}
    ), taken as (
      delete from outbox where ctid = any(array(select place from share))
    )
    select account_id, partition, payload, trace_parent, created_at < state.began_at as precedes_epoch
    from event_log_state state cross join share`
}

/** Adds batches to the log. Sent after `lockState` in the same transaction. @param numbers the newest of each partition */
export function insertBatches(tx: Sql, numbers: bigint[], batches: NewBatch[]): Statement {
  return tx`
    with numbered as (update event_log_state set numbers = ${plainArray(numbers)}::bigint[])
    insert into event_log (slot, partition, number, batch)
    select ${slotOf(tx)}, partition, number, decode(batch, 'base64')
    from unnest(
      ${plainArray(batches.map(({ partition }) => partition))}::smallint[],
      ${plainArray(batches.map(({ number }) => number))}::bigint[],
      ${base64Array(batches.map(({ bytes }) => bytes))}::text[]
    ) as added (partition, number, batch)`
}

/** The table of the log that takes today's batches. */
export const slotOf = (sql: Sql) => sql`(extract(epoch from now())::bigint / 86400 % 8)::smallint`

/**
 * Begins an epoch at the next number of each partition, if the database was started, restored or replaced since the newest
 * one began, or if a consumer of the newest one has come further than the log.
 *
 * @returns whether one has begun
 */
export async function beginEpoch(
  sql: Sql,
  epoch: string,
  reader?: { partition: number; number: bigint; epoch: string },
): Promise<boolean> {
  const isBehindReader = reader
    ? sql`epoch = ${reader.epoch} and numbers[${reader.partition + 1}::int] < ${reader.number}`
    : sql`false`
  const begun = await sql`
    with begun as (
      update event_log_state set epoch = ${epoch}, began_at = clock_timestamp(), incarnation = ${incarnation(sql)}
      where incarnation is distinct from ${incarnation(sql)} or (${isBehindReader}) returning numbers
    )
    insert into event_log_epochs (epoch, first_numbers)
    select ${epoch}, array(select number + 1 from unnest(numbers) with ordinality as each (number, at) order by at)
    from begun`
  return begun.count > 0
}

/** Age of the oldest event that has no number, in seconds; 0 if none waits. */
export async function oldestAge(sql: Sql): Promise<number> {
  const [row] = await sql<{ age_seconds: number }[]>`
    select extract(epoch from clock_timestamp() - created_at)::float8 as age_seconds
    from outbox order by position limit 1`
  return row?.age_seconds ?? 0
}
