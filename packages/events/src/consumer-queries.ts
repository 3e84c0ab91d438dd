import { plainArray } from '@licensing/database/arrays'
import type { Sql } from '@licensing/database/connect'
import { leaseMs, partitionCount } from './partitions.ts'

/** How far a partition is consumed: all batches up to `number`, and the first `done` events of the next one. */
export interface Position {
  number: bigint
  done: number
  /** The producer's epochs that it takes into account. */
  epochs: string[]
  /** Whether the producer's log was set back at some time: events may have had another number before. */
  is_set_back: boolean
}

/** A position and the partition that it is of. */
export type PartitionPosition = Position & { partition: number }

/** A partition that a replica reads. */
export interface Place {
  source: string
  partition: number
  member: string
}

const ms = (sql: Sql, milliseconds: number) => sql`${Math.ceil(milliseconds)}::int * interval '1 millisecond'`

/**
 * Renews this member's leases, takes free partitions up to its fair share and gives up the partitions above it. The
 * transaction of a batch renews the lease of its partition, so this waits for none, unless it gives that partition up.
 *
 * @returns the partitions held now, with their positions
 */
export async function leasePartitions(
  sql: Sql,
  source: string,
  member: string,
): Promise<PartitionPosition[]> {
  const lease = ms(sql, leaseMs)
  // Leases are renewed when a third of their time has passed.
  const due = ms(sql, (leaseMs * 2) / 3)
  const rows = await sql<(PartitionPosition & { is_mine: boolean; is_free: boolean; members: number })[]>`
    with seen as (
      insert into consumer_members as known (source, member, seen_at) values (${source}, ${member}, clock_timestamp())
      on conflict (source, member) do update set seen_at = excluded.seen_at
      where known.seen_at < clock_timestamp() + ${due} - ${lease}
    ), gone as (
      delete from consumer_members
      where source = ${source} and member <> ${member} and seen_at < clock_timestamp() - ${lease}
    )
    select partition, number, done, epochs, is_set_back,
      coalesce(holder = ${member}, false) as is_mine,
      (holder is null or held_until < clock_timestamp()) as is_free,
      1 + (
        select count(*)::int from consumer_members
        where source = ${source} and member <> ${member} and seen_at >= clock_timestamp() - ${lease}
      ) as members
    from consumer_positions where source = ${source} order by partition`
  if (rows.length < partitionCount) {
    await sql`
      insert into consumer_positions (source, partition)
      select ${source}, partition from generate_series(0, ${partitionCount - 1}) as partition on conflict do nothing`
    return leasePartitions(sql, source, member)
  }
  const mine = rows.filter((row) => row.is_mine)
  const free = rows.filter((row) => row.is_free && !row.is_mine)
  const share = Math.ceil(partitionCount / rows[0]!.members)
  const kept = [...mine, ...free].slice(0, share)
  const numbersOf = (partitions: PartitionPosition[]) => plainArray(partitions.map((row) => row.partition))
  const taken = await sql<{ partition: number }[]>`
    update consumer_positions set holder = ${member}, held_until = clock_timestamp() + ${lease}
    where source = ${source} and partition in (
      select partition from consumer_positions
      where source = ${source} and partition = any(${numbersOf(kept)}::smallint[])
        and (holder is null or held_until < clock_timestamp() or (holder = ${member} and held_until < clock_timestamp() + ${due}))
      order by partition for update skip locked
    ) returning partition`
  if (mine.length > share) {
    await sql`
      update consumer_positions set holder = null
      where source = ${source} and holder = ${member} and partition = any(${numbersOf(mine.slice(share))}::smallint[])`
  }
  return kept
    .filter((row) => row.is_mine || taken.some(({ partition }) => partition === row.partition))
    .sort((a, b) => a.partition - b.partition)
}

export async function releasePartitions(sql: Sql, source: string, member: string): Promise<void> {
  await sql`update consumer_positions set holder = null where source = ${source} and holder = ${member}`
  await sql`delete from consumer_members where source = ${source} and member = ${member}`
}

/** Of all partitions, with the replica that reads each; none if its lease has ended. */
export async function listPositions(
  sql: Sql,
  source: string,
): Promise<(PartitionPosition & { moved_at: Date; holder: string | null })[]> {
  return sql<(PartitionPosition & { moved_at: Date; holder: string | null })[]>`
    select partition, number, done, epochs, is_set_back, moved_at,
      case when held_until > clock_timestamp() then holder end as holder
    from consumer_positions where source = ${source} order by partition`
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
    set number = ${to.number}, done = ${to.done}, epochs = ${plainArray(to.epochs)}::text[],
      is_set_back = ${to.is_set_back}, moved_at = clock_timestamp(),
      held_until = clock_timestamp() + ${ms(sql, leaseMs)}
    where source = ${source} and partition = ${partition} and holder = ${member}
      and number = ${from.number} and done = ${from.done}`
  return moved.count === 1
}
