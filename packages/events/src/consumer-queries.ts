import type { Sql, Statement } from '@licensing/database/connect'
import { rowsOf } from '@licensing/database/row-queries'
import { leaseMs, partitionCount } from './partitions.ts'

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
 * @returns the partitions held now, with their positions
 */
export async function leasePartitions(
  sql: Sql,
  source: string,
  member: string,
): Promise<PartitionPosition[]> {
  const rows = await listPositions(sql, source)
  if (rows.length < partitionCount) {
    await sql`
      insert into consumer_positions (source, partition)
      select ${source}, partition from generate_series(0, ${partitionCount - 1}) as partition on conflict do nothing`
    return leasePartitions(sql, source, member)
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
