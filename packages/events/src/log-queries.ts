import { create, toBinary } from '@bufbuild/protobuf'
import type { Database, Sql, Statement } from '@licensing/database/connect'
import { rowsOf } from '@licensing/database/row-queries'
import { transaction } from '@licensing/database/transaction'
import { EventBatchSchema } from '@licensing/proto/event-log'
import { beginEpoch, currentEpoch } from './epoch-queries.ts'
import { lockState, slotOf } from './outbox-queries.ts'
import type { LoggedBatch } from './outbox-queries.ts'

/** A consumer's position in a partition. */
export interface LogPosition {
  partition: number
  epoch: bigint
  number: bigint
}

/** The newest batches of a log. */
export interface Newest {
  epoch: bigint
  /** The newest number of each partition. */
  numbers: bigint[]
  /** The first number of each partition in the epoch. */
  firstNumbers: bigint[]
}

/**
 * Reads the newest epoch and numbers, and records a consumer's positions if they have changed or were last recorded a minute
 * ago. It is one statement, so that epoch and numbers are consistent.
 */
export async function findLogFor(sql: Sql, consumer: string, positions: LogPosition[]): Promise<Newest> {
  const [newest] = await sql<[Newest]>`
    with recorded as (
      insert into event_log_readers as known (consumer, partition, epoch, number)
      select ${consumer}, partition, epoch, number
      from ${rowsOf(sql, { partition: 'smallint', epoch: 'bigint', number: 'bigint' }, positions)} read order by partition
      on conflict (consumer, partition) do update
        set epoch = excluded.epoch, number = excluded.number, reported_at = now()
      where (known.epoch, known.number) <> (excluded.epoch, excluded.number)
        or known.reported_at < now() - interval '1 minute'
    )
    select coalesce(ordinal, 0) as epoch, numbers, coalesce(first_numbers, '{}') as "firstNumbers"
    from event_log_state left join (select * from event_log_epochs order by ordinal desc limit 1) newest on true`
  return newest
}

/**
 * Begins an epoch later than a consumer's position, which the log has not reached: the log was restored from a backup. If the position's
 * epoch is later than the newest one, the clock of the lost server was ahead: the batches of the newest epoch then belong to
 * the one that begins, because the consumer does not have them.
 */
export async function beginEpochAfter(sql: Database, position: LogPosition): Promise<void> {
  await transaction(sql, async (tx) => {
    await lockState(tx, [])
    const [newest] = await tx<{ ordinal: bigint }[]>`select max(ordinal) as ordinal from event_log_epochs`
    const { ordinal } = await currentEpoch(tx, position.epoch + 1n)
    if (newest!.ordinal >= position.epoch) return
    await tx`update event_log set epoch = ${ordinal}, precedes_epoch = true where epoch = ${newest!.ordinal}`
    await tx`update event_log_growths set epoch = ${ordinal} where epoch = ${newest!.ordinal}`
  })
}

/** The newest batches at the time when a log got more partitions. */
export interface Growth {
  epoch: bigint
  numbers: bigint[]
}

/**
 * Adds partitions to a log that has fewer than `count`. Each account either stays in its partition or moves to one that is
 * added, because the count is multiplied. Later events of an account that moves get numbers of the new partition.
 */
export async function growLog(sql: Database, count: number): Promise<void> {
  await transaction(sql, async (tx) => {
    const [state] = await lockState(tx, [])
    const { length } = state!.numbers
    if (length >= count) return
    await beginEpoch(tx)
    await tx`
      insert into event_log_growths (epoch, numbers)
      select (select max(ordinal) from event_log_epochs), numbers from event_log_state`
    await tx`update event_log_state set numbers = numbers || array_fill(0::bigint, array[${count - length}::int])`
  })
}

/** The smallest number of partitions first. */
export async function listGrowths(sql: Sql): Promise<Growth[]> {
  return sql<Growth[]>`select epoch, numbers from event_log_growths order by cardinality(numbers)`
}

/** Batches of a partition after a position, in order: at least one, and more up to a limit in bytes. */
export function listBatches(
  sql: Sql,
  { partition, epoch, number, bytes }: LogPosition & { bytes: number },
): Statement<LoggedBatch> {
  return sql<LoggedBatch[]>`
    select partition, number, epoch, precedes_epoch, events from (
      select next.*, sum(length(events)) over (order by number) as total, row_number() over (order by number) as at
      from (
        select partition, number, epoch, precedes_epoch, events from event_log
        where partition = ${partition} and (epoch, number) > (${epoch}, ${number}) order by epoch, number limit 200
      ) next
    ) counted where total <= ${bytes} or at = 1 order by number`
}

/** An encoded `EventBatch`. */
export function encoded({ events, epoch, partition, number, precedes_epoch }: LoggedBatch): Uint8Array {
  const rest = create(EventBatchSchema, { epoch, partition, number, precedesEpoch: precedes_epoch })
  return Buffer.concat([toBinary(EventBatchSchema, rest), events])
}

/** A table of the log that contains an earlier day. */
export interface PastSlot {
  slot: number
  /** How long ago its last batch was added, in seconds. */
  age_seconds: number
  bytes: number
  /** Whether every consumer has confirmed all of it. */
  is_confirmed: boolean
}

/** The oldest first. */
export async function listPastSlots(sql: Sql, consumers: readonly string[]): Promise<PastSlot[]> {
  return sql<PastSlot[]>`
    with last as (
      select slot, partition, max(epoch) as epoch, max(number) as number, max(created_at) as added_at
      from event_log where slot <> ${slotOf(sql)} group by slot, partition
    )
    select slot, extract(epoch from now() - max(added_at))::float8 as age_seconds,
      pg_total_relation_size(format('event_log_%s', slot)::regclass)::float8 as bytes,
      bool_and(coalesce((reader.epoch, reader.number) >= (last.epoch, last.number), false)) as is_confirmed
    from last
    cross join unnest(${[...consumers]}::text[]) as expected (name)
    left join event_log_readers reader on reader.consumer = expected.name and reader.partition = last.partition
    group by slot order by age_seconds desc`
}

/**
 * Truncates a day's table instead of deleting its rows, unless it takes the batches of the present day. Waits for readers for a
 * second at most.
 */
export async function truncateSlot(sql: Database, slot: number): Promise<void> {
  await sql.begin(async (tx) => {
    const table = tx(`event_log_${slot}`)
    await tx`set local lock_timeout = '1s'`
    await tx`lock table ${table}`
    // The day may have ended while this statement waited.
    const present = await tx`select where ${slotOf(tx, tx`clock_timestamp()`)} = ${slot}`
    if (present.count === 0) await tx`truncate ${table}`
  })
}

/** Deletes epochs that have no batches left, except the newest. */
export async function pruneEpochs(sql: Sql): Promise<void> {
  await sql`
    delete from event_log_epochs
    where began_at < now() - interval '30 days' and ordinal < (select max(ordinal) from event_log_epochs)`
}

/** Age of the oldest batch that a consumer has not confirmed (0 if all is confirmed), and the size of the log. */
export async function measureLog(
  sql: Sql,
  consumers: readonly string[],
): Promise<{ unconfirmed_seconds: number; bytes: number }> {
  const [row] = await sql<{ unconfirmed_seconds: number; bytes: number }[]>`
    select coalesce(max(extract(epoch from now() - next.created_at)), 0)::float8 as unconfirmed_seconds, (
      select sum(pg_total_relation_size(inhrelid))::float8 from pg_inherits where inhparent = 'event_log'::regclass
    ) as bytes
    from unnest(${[...consumers]}::text[]) as expected (name)
    cross join (select generate_series(0, cardinality(numbers) - 1) from event_log_state) as each (partition)
    left join event_log_readers reader on reader.consumer = expected.name and reader.partition = each.partition
    cross join lateral (
      select created_at from event_log
      where event_log.partition = each.partition
        and (event_log.epoch, event_log.number) > (coalesce(reader.epoch, 0), coalesce(reader.number, 0))
      order by event_log.epoch, event_log.number limit 1
    ) next`
  return row!
}
