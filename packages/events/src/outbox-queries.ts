import type { Sql, Statement } from '@licensing/database/connect'
import { rowsOf } from '@licensing/database/row-queries'

/** An event about to be written. */
export interface NewOutboxRow {
  account_id: string
  account_hash: number
  /** An encoded `EventBatch` that contains only this event. */
  payload: Uint8Array
}

/** Consecutive events of a partition, as the log has them. */
export interface LoggedBatch {
  partition: number
  number: bigint
  epoch: bigint
  precedes_epoch: boolean
  /** The concatenated payloads of its events. */
  events: Buffer
}

export function insertEvents(tx: Sql, events: NewOutboxRow[]): Statement {
  return tx`
    insert into outbox (account_id, account_hash, payload)
    select account_id, account_hash, payload
    from ${rowsOf(tx, { account_id: 'text', account_hash: 'bigint', payload: 'bytea' }, events)} event
    order by ordinality`
}

// A simple query, as in `transaction`.
export const begin = (connection: Sql): Statement => connection.unsafe('begin')
export const commit = (connection: Sql): Statement => connection`commit`
export const rollback = (connection: Sql): Statement => connection`rollback`

/**
 * Prevents other relays from numbering events of this database until the transaction ends.
 *
 * @returns for each partition the newest number, and the number up to which all of these consumers have confirmed the log
 */
export function lockState(tx: Sql, consumers: readonly string[]): Statement<LogState> {
  return tx<LogState[]>`
    select numbers, array(
      select coalesce((
        select min(number) from event_log_readers where partition = at and consumer = any(${[...consumers]}::text[])
        having count(*) = ${consumers.length}::int
      ), 0)
      from generate_series(0, cardinality(numbers) - 1) as at order by at
    ) as confirmed
    from event_log_state for update`
}

export interface LogState {
  numbers: bigint[]
  confirmed: bigint[]
}

/** A batch that was just moved to the log. */
export type MovedBatch = LoggedBatch & {
  event_count: number
  /** The account of each of its events. */
  accounts: string[]
  /** The last account of all batches that were moved with it. */
  last_account: string
}

/**
 * Moves the first events of each account from the outbox to the log, in the order of account ids. A batch has events of one
 * partition and the partition's next number. Send this after `lockState` and `beginEpoch` in the same transaction. An account's events are in
 * the order of their commits. The query sorts by both columns so that PostgreSQL uses the index of accounts: the index of
 * positions would visit the rows of all other accounts.
 *
 * @param held accounts that are left out
 * @param after begins with the first account after this one
 * @param batchBytes a batch takes no more events once it has this many bytes
 */
export function moveToLog(
  tx: Sql,
  share: { held: string[]; after: string; each: number; limit: number; batchBytes: number },
): Statement<MovedBatch> {
  const { held, after, each, limit, batchBytes } = share
  const next = (before: Statement) => tx`(
    select account_id from outbox where account_id > ${before} order by account_id limit 1
  )`
  return tx<MovedBatch[]>`
    with recursive waiting (account) as (
      ${next(tx`${after}`)}
      union all
      select ${next(tx`w.account`)} from waiting w where w.account is not null
    ), share as materialized (
      select o.place
      from waiting w cross join lateral (
        select ctid as place from outbox where account_id between w.account and w.account
        order by account_id, position limit ${each}
      ) o where w.account <> all(${held}::text[]) limit ${limit}
    ), taken as (
      delete from outbox where ctid = any(array(select place from share))
      returning account_id, position, payload,
        (account_hash % (select cardinality(numbers) from event_log_state))::smallint as partition
    ), sized as (
      select taken.*, sum(length(payload)) over (partition by partition order by position) - length(payload) as bytes_before
      from taken
    ), batch as (
      select partition, row_number() over (partition by partition order by min(position) desc) - 1 as following,
        min(position) as position, string_agg(payload, ''::bytea order by position) as events,
        count(*)::int as event_count, array_agg(account_id) as accounts, max(max(account_id)) over () as last_account
      from sized group by partition, div(bytes_before, ${batchBytes})
    ), state as (
      update event_log_state set alive_at = clock_timestamp(), numbers = array(
        select newest + count(batch.following) from unnest(numbers) with ordinality as known (newest, ordinality)
        left join batch on batch.partition = ordinality - 1 group by ordinality, newest order by ordinality
      ) where exists (select from batch) returning numbers
    ), numbered as (
      select partition, numbers[partition + 1] - following as number, ordinal as epoch,
        batch.position <= began_after as precedes_epoch, events, event_count, accounts, last_account
      from batch cross join state
      cross join (select ordinal, began_after from event_log_epochs order by ordinal desc limit 1) newest
    ), logged as (
      insert into event_log (slot, partition, number, epoch, precedes_epoch, events)
      select ${slotOf(tx)}, partition, number, epoch, precedes_epoch, events from numbered
    )
    select partition, number, epoch, precedes_epoch, events, event_count, accounts, last_account
    from numbered order by partition, number`
}

/** The table of the log that takes the batches of the present day. */
export const slotOf = (sql: Sql, time = sql`now()`) =>
  sql`(extract(epoch from ${time})::bigint / 86400 % 16)::smallint`

/** Age of the oldest event that has no number, in seconds; 0 if there is none. */
export async function oldestAge(sql: Sql): Promise<number> {
  const [row] = await sql<{ age_seconds: number }[]>`
    select extract(epoch from clock_timestamp() - created_at)::float8 as age_seconds
    from outbox order by position limit 1`
  return row?.age_seconds ?? 0
}
