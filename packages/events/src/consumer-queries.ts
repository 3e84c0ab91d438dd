import { plainArray } from '@licensing/database/arrays'
import type { Database, Sql } from '@licensing/database/connect'
import { transaction } from '@licensing/database/transaction'

/** How far a partition is consumed: all batches up to `number`, and the first `done` events of the next one. */
export interface Position {
  number: bigint
  done: number
  /** The producer's epochs that it takes into account. */
  epochs: string[]
  /** The first epoch that has set it back. */
  set_back_by: string | null
}

/** A partition that a replica reads. */
export interface Place {
  source: string
  partition: number
  member: string
}

// The part of a lease that is left when it is renewed.
const renewedBelow = 2 / 3

interface Lease {
  source: string
  member: string
  leaseMs: number
  partitionCount: number
}

/** A position and the partition that it is of. */
export type PartitionPosition = Position & { partition: number }

/**
 * Renews this member's partitions, takes free ones up to its fair share and gives up what is over it. Waits for no batch
 * of a partition that it keeps: that one is left as it is, since the batch itself renews the lease.
 *
 * @returns the partitions held now, with their positions
 */
export async function leasePartitions(sql: Database, lease: Lease): Promise<PartitionPosition[]> {
  const { source, member, leaseMs, partitionCount } = lease
  const all = await keepAll(sql, lease)
  if (all.length > 0) return all
  return transaction(sql, async (tx) => {
    // Not by a conflict alone: to find one it would wait for the transaction that is changing the row.
    await tx`
      insert into consumer_positions (source, partition)
      select ${source}, partition from generate_series(0, ${partitionCount - 1}) as partition
      where not exists (
        select 1 from consumer_positions known where known.source = ${source} and known.partition = partition.partition
      )
      on conflict do nothing`
    await tx`
      insert into consumer_members (source, member, seen_at) values (${source}, ${member}, clock_timestamp())
      on conflict (source, member) do update set seen_at = excluded.seen_at`
    await tx`
      delete from consumer_members where source = ${source} and seen_at < clock_timestamp() - ${ms(tx, leaseMs)}`
    // A busy partition has a new lease, and is not locked here.
    const idle = await tx<{ partition: number; free: boolean }[]>`
      select partition, (holder is null or held_until < clock_timestamp()) as free
      from consumer_positions
      where source = ${source} and (holder is null or held_until < clock_timestamp() + ${ms(tx, leaseMs * renewedBelow)})
      order by partition for update skip locked`
    const rows = await tx<(PartitionPosition & { mine: boolean; members: number })[]>`
      select partition, number, done, epochs, set_back_by, coalesce(holder = ${member}, false) as mine,
        (select count(*)::int from consumer_members m where m.source = ${source}) as members
      from consumer_positions where source = ${source} order by partition`
    const share = Math.ceil(partitionCount / Math.max(1, rows[0]?.members ?? 1))
    const idleOnes = new Set(idle.map(({ partition }) => partition))
    const mine = rows.filter((row) => row.mine).map((row) => row.partition)
    const free = idle.filter((row) => row.free && !mine.includes(row.partition)).map((row) => row.partition)
    const kept = [...mine, ...free].slice(0, share)
    const given = mine.filter((partition) => !kept.includes(partition))
    await tx`
      update consumer_positions
      set holder = ${member}, held_until = clock_timestamp() + ${ms(tx, leaseMs)}
      where source = ${source} and partition = any(${kept.filter((partition) => idleOnes.has(partition))}::smallint[])`
    // Under load a partition is never idle, so this waits for the batch.
    await tx`
      update consumer_positions set holder = null
      where source = ${source} and partition = any(${given}::smallint[])`
    return rows.filter(({ partition }) => kept.includes(partition))
  })
}

/**
 * The usual case in one statement: a single replica that holds all partitions. Leases are renewed when a third of their
 * time has passed.
 *
 * @returns all partitions, or none if this replica does not hold them all or is not the only one
 */
async function keepAll(
  sql: Sql,
  { source, member, leaseMs, partitionCount }: Lease,
): Promise<PartitionPosition[]> {
  const soon = sql`clock_timestamp() + ${ms(sql, leaseMs * renewedBelow)}`
  const whole = sql`clock_timestamp() + ${ms(sql, leaseMs)}`
  return sql<PartitionPosition[]>`
    with sole as (
      select from consumer_positions where source = ${source}
      having count(*) = ${partitionCount}
        and bool_and(coalesce(holder = ${member} and held_until > clock_timestamp(), false))
        and (select bool_and(m.member = ${member}) from consumer_members m where m.source = ${source})
    ), due as (
      select partition from consumer_positions
      where source = ${source} and held_until < ${soon} and exists (select from sole)
      order by partition for update skip locked
    ), renewed as (
      update consumer_positions p set held_until = ${whole} from due
      where p.source = ${source} and p.partition = due.partition
    ), seen as (
      update consumer_members set seen_at = clock_timestamp()
      where source = ${source} and member = ${member} and seen_at < ${soon} - ${ms(sql, leaseMs)}
        and exists (select from sole)
    )
    select partition, number, done, epochs, set_back_by
    from consumer_positions where source = ${source} and exists (select from sole) order by partition`
}

const ms = (sql: Sql, milliseconds: number) => sql`${Math.ceil(milliseconds)}::int * interval '1 millisecond'`

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
    select partition, number, done, epochs, set_back_by, moved_at,
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
  leaseMs: number,
): Promise<boolean> {
  const moved = await sql`
    update consumer_positions
    set number = ${to.number}, done = ${to.done}, epochs = ${plainArray(to.epochs)}::text[],
      set_back_by = ${to.set_back_by}, moved_at = clock_timestamp(),
      held_until = clock_timestamp() + ${ms(sql, leaseMs)}
    where source = ${source} and partition = ${partition} and holder = ${member}
      and number = ${from.number} and done = ${from.done} and epochs = ${plainArray(from.epochs)}::text[]`
  return moved.count === 1
}
