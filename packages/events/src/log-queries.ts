import { create, toBinary } from '@bufbuild/protobuf'
import { plainArray } from '@licensing/database/arrays'
import type { Database, Sql, Statement } from '@licensing/database/connect'
import { EventBatchSchema } from '@licensing/proto/event-log'
import { slotOf } from './outbox-queries.ts'
import type { LoggedBatch } from './outbox-queries.ts'

interface Epoch {
  epoch: string
  /** The first number of each partition in this epoch. */
  first_numbers: bigint[]
}

/**
 * Reads the newest number of each partition and the epochs, the oldest first, and records a consumer's position if it has
 * changed or was last recorded a minute ago. It is one statement, so that numbers and epochs are consistent.
 */
export async function findLogFor(
  sql: Sql,
  consumer: string,
  positions: { partition: number; number: bigint }[],
): Promise<{ numbers: bigint[]; epochs: Epoch[] }> {
  const rows = await sql<({ numbers: bigint[] } & (Epoch | { epoch: null }))[]>`
    with recorded as (
      insert into event_log_readers as known (consumer, partition, number)
      select ${consumer}, partition, number
      from unnest(
        ${plainArray(positions.map(({ partition }) => partition))}::smallint[],
        ${plainArray(positions.map(({ number }) => number))}::bigint[]
      ) as read (partition, number) order by partition
      on conflict (consumer, partition) do update set number = excluded.number, reported_at = now()
      where known.number <> excluded.number or known.reported_at < now() - interval '1 minute'
    )
    select state.numbers, known.ordinal::text as epoch, known.first_numbers
    from event_log_state state left join event_log_epochs known on true order by known.ordinal`
  return { numbers: rows[0]!.numbers, epochs: rows.filter((row) => row.epoch !== null) }
}

/** Begins an epoch if a consumer of the newest one has come further than the log. @returns whether one has begun */
export async function beginEpochAfter(
  sql: Sql,
  reader: { partition: number; number: bigint; epoch: string },
): Promise<boolean> {
  const begun = await sql`
    select current_epoch(ordinal + 1) from event_log_state cross join event_log_epochs
    where ordinal::text = ${reader.epoch} and ordinal = (select max(ordinal) from event_log_epochs)
      and numbers[${reader.partition + 1}::int] < ${reader.number}`
  return begun.count > 0
}

/** Batches of a partition after a number, in order: at least one, and more up to a limit in bytes. */
export function listBatches(
  sql: Sql,
  { partition, after, bytes }: { partition: number; after: bigint; bytes: number },
): Statement<LoggedBatch> {
  return sql<LoggedBatch[]>`
    select partition, number, epoch, precedes_epoch, events from (
      select next.*, sum(length(events)) over (order by number) as total, row_number() over (order by number) as at
      from (
        select partition, number, epoch, precedes_epoch, events from event_log
        where partition = ${partition} and number > ${after} order by number limit 200
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
  /** Whether every consumer has confirmed all of it. */
  is_confirmed: boolean
}

export async function listPastSlots(sql: Sql, consumers: readonly string[]): Promise<PastSlot[]> {
  return sql<PastSlot[]>`
    with last as (
      select slot, partition, max(number) as number, max(created_at) as added_at
      from event_log where slot <> ${slotOf(sql)} group by slot, partition
    )
    select slot, extract(epoch from now() - max(added_at))::float8 as age_seconds,
      bool_and(coalesce(reader.number >= last.number, false)) as is_confirmed
    from last
    cross join unnest(${[...consumers]}::text[]) as expected (name)
    left join event_log_readers reader on reader.consumer = expected.name and reader.partition = last.partition
    group by slot order by slot`
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
    cross join generate_series(0, 7) as each (partition)
    left join event_log_readers reader on reader.consumer = expected.name and reader.partition = each.partition
    cross join lateral (
      select created_at from event_log
      where event_log.partition = each.partition and event_log.number > coalesce(reader.number, 0)
      order by event_log.number limit 1
    ) next`
  return row!
}
