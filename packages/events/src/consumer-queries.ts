import type { Sql, Statement } from '@licensing/database/connect'
import { rowsOf } from '@licensing/database/row-queries'
import type { ReadLogResponse } from '@licensing/proto/event-log'
import { firstPartitions, leaseMs } from './partitions.ts'

/** The place of a batch in a partition of a log: batches are in the order of their epochs, then of their numbers. */
export interface BatchPlace {
  epoch: bigint
  number: bigint
}

/** How far a partition is consumed: all batches up to `number`, and the first `done` events of the next one. */
export interface Position extends BatchPlace {
  done: number
}

export function isAfter(a: BatchPlace, b: BatchPlace): boolean {
  return a.epoch > b.epoch || (a.epoch === b.epoch && a.number > b.number)
}

/** The position of a partition. */
export type PartitionPosition = Position & { partition: number }

/** The newest epoch and partitions of a producer's log. */
export type Log = Pick<ReadLogResponse, 'epoch' | 'numbers' | 'growths'>

/** A partition that a replica reads. */
export interface Place {
  source: string
  partition: number
  member: string
}

const ms = (sql: Sql, milliseconds: number) => sql`${Math.ceil(milliseconds)}::int * interval '1 millisecond'`

/** A partition's position and lease. */
type Lease = PartitionPosition & {
  moved_at: Date
  /** The replica that reads it; null if none does, if its lease has ended, or if the clock was set back since it was leased. */
  holder: string | null
  /** The replica that has leased it last. */
  last_holder: string | null
  /** Whether a third of the lease's time has passed. */
  is_due: boolean
}

export async function listPositions(sql: Sql, source: string): Promise<Lease[]> {
  return sql<Lease[]>`
    select partition, epoch, number, done, moved_at, holder as last_holder,
      case when held_until - clock_timestamp() between interval '0' and ${ms(sql, leaseMs * 2)} then holder end as holder,
      held_until < clock_timestamp() + ${ms(sql, (leaseMs * 2) / 3)} as is_due
    from consumer_positions where source = ${source} order by partition`
}

/**
 * Renews this member's leases and takes free partitions. If another member has more partitions, takes half of the
 * difference, so that all have equally many. A member that loses a partition finds out when it moves the position or renews
 * its leases. The transaction of a batch renews the lease of its partition, so this renewal does not wait for batches.
 *
 * @param log the newest answer of the producer, if there is one
 * @returns the partitions held now, with their positions
 */
export async function leasePartitions(
  sql: Sql,
  source: string,
  member: string,
  log?: Log,
): Promise<PartitionPosition[]> {
  let rows = await listPositions(sql, source)
  if (rows.length < firstPartitions) {
    await sql`
      insert into consumer_positions (source, partition)
      select ${source}, partition from generate_series(0, ${firstPartitions - 1}) as partition on conflict do nothing`
    return leasePartitions(sql, source, member)
  }
  if (log && rows.length < log.numbers.length) {
    await beginPartitions(sql, source, log)
    rows = await listPositions(sql, source)
  }
  const take = async (leases: Lease[], ifLocked: Statement) => {
    if (leases.length === 0) return []
    const seen = leases.map(({ partition, last_holder }) => ({ partition, last_holder }))
    return sql<{ partition: number }[]>`
      update consumer_positions set holder = ${member}, held_until = clock_timestamp() + ${ms(sql, leaseMs)}
      where source = ${source} and partition in (
        select known.partition from consumer_positions known
        join ${rowsOf(sql, { partition: 'smallint', last_holder: 'text' }, seen)} seen
          on seen.partition = known.partition and seen.last_holder is not distinct from known.holder
        where known.source = ${source} order by known.partition for update of known ${ifLocked}
      ) returning partition`
  }
  const mine = rows.filter(({ holder }) => holder === member)
  const free = rows.filter(({ holder }) => holder === null)
  const others = Map.groupBy(
    rows.filter(({ holder }) => holder !== null && holder !== member),
    ({ holder }) => holder,
  )
  const [largest = []] = [...others.values()].toSorted((a, b) => b.length - a.length)
  const surplus = Math.floor((largest.length - mine.length - free.length) / 2)
  const taken = [
    ...(await take([...mine.filter((lease) => lease.is_due), ...free], sql`skip locked`)),
    ...(await take(largest.slice(0, Math.max(0, surplus)), sql``)),
  ]
  return rows.filter(
    (row) => row.holder === member || taken.some(({ partition }) => partition === row.partition),
  )
}

/**
 * Begins with partitions that the log has added, after the earlier partitions are consumed up to the time at which it did so.
 * Until then, an account that has moved to an added partition may have earlier events that are not consumed. A position in a
 * later epoch than the answer's shows that the log was restored since, and perhaps to a time before it had these partitions.
 */
async function beginPartitions(sql: Sql, source: string, { epoch, numbers, growths }: Log): Promise<void> {
  for (const [at, growth] of growths.entries()) {
    const { length: first } = growth.numbers
    const next = growths[at + 1]?.numbers.length ?? numbers.length
    await sql`
      with reached as (
        select (known.epoch, known.number) >= (${growth.epoch}, place.number) and known.epoch <= ${epoch} as is_reached
        from consumer_positions known
        join unnest(${growth.numbers.map(String)}::bigint[]) with ordinality as place (number, at) on known.partition = place.at - 1
        where known.source = ${source} order by known.partition for share of known
      )
      insert into consumer_positions (source, partition, epoch)
      select ${source}, partition, ${growth.epoch}::bigint from generate_series(${first}::int, ${next - 1}::int) as partition
      where (select count(*) from reached where is_reached) = ${first}
      on conflict do nothing`
  }
}

/** Where each partition that the log has added begins; the last place is where the log ends. */
function beginningsOf({ epoch, numbers, growths }: Log): { partition: number; epoch: bigint }[] {
  const added = growths.map((growth) => ({ partition: growth.numbers.length, epoch: growth.epoch }))
  return [...added, { partition: numbers.length, epoch }]
}

/** Whether the log does not have this position's partition: it was restored to a time before it had this partition. */
export function isForgotten(log: Log, { partition, epoch }: PartitionPosition): boolean {
  return beginningsOf(log).some((begin) => partition >= begin.partition && epoch < begin.epoch)
}

/** Deletes the positions in partitions that the log does not have. Their readers can then commit nothing. */
export async function deleteForgotten(sql: Sql, source: string, log: Log): Promise<void> {
  const begins = rowsOf(sql, { partition: 'smallint', epoch: 'bigint' }, beginningsOf(log))
  await sql`
    delete from consumer_positions where source = ${source} and partition in (
      select known.partition from consumer_positions known
      where known.source = ${source} and exists (
        select from ${begins} begin where known.partition >= begin.partition and known.epoch < begin.epoch
      ) order by known.partition for update of known
    )`
}

export async function releasePartitions(sql: Sql, source: string, member: string): Promise<void> {
  await sql`update consumer_positions set holder = null where source = ${source} and holder = ${member}`
}

/**
 * Moves a position by compare-and-swap, and renews the lease; false if another replica has moved it or reads the
 * partition.
 */
export async function movePosition(
  sql: Sql,
  { source, partition, member }: Place,
  from: Position,
  to: Position,
): Promise<boolean> {
  const moved = await sql`
    update consumer_positions
    set epoch = ${to.epoch}, number = ${to.number}, done = ${to.done}, moved_at = clock_timestamp(),
      held_until = clock_timestamp() + ${ms(sql, leaseMs)}
    where source = ${source} and partition = ${partition} and holder = ${member}
      and epoch = ${from.epoch} and number = ${from.number} and done = ${from.done}`
  return moved.count === 1
}
