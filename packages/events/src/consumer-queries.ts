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

interface Lease {
  source: string
  member: string
  leaseMs: number
  partitionCount: number
}

/** The usual case of a single replica, found without a write: it holds all partitions, and its leases last a while. */
async function holdsAll(sql: Sql, { source, member, leaseMs, partitionCount }: Lease): Promise<boolean> {
  const third = sql`${Math.ceil(leaseMs / 3)}::int * interval '1 millisecond'`
  const [row] = await sql<{ holds_all: boolean }[]>`
    select count(*) = ${partitionCount}
      and bool_and(coalesce(holder = ${member} and held_until > clock_timestamp() + ${third}, false))
      and (
        select bool_and(m.member = ${member} and m.seen_at > clock_timestamp() - 2 * ${third})
        from consumer_members m where m.source = ${source}
      ) as holds_all
    from consumer_positions where source = ${source}`
  return row?.holds_all === true
}

/**
 * Renews this member's partitions, takes free ones up to its fair share and gives up what is over it. Waits for no batch
 * of a partition that it keeps: that one is left as it is, since the batch itself renews the lease.
 *
 * @returns the partitions held now
 */
export async function leasePartitions(sql: Database, lease: Lease): Promise<number[]> {
  const { source, member, leaseMs, partitionCount } = lease
  if (await holdsAll(sql, lease)) return Array.from({ length: partitionCount }, (_, partition) => partition)
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
      delete from consumer_members
      where source = ${source} and seen_at < clock_timestamp() - ${leaseMs}::int * interval '1 millisecond'`
    // A busy partition has a new lease, and is not locked here.
    const idle = await tx<{ partition: number; free: boolean }[]>`
      select partition, (holder is null or held_until < clock_timestamp()) as free
      from consumer_positions
      where source = ${source}
        and (holder is null or held_until < clock_timestamp() + ${Math.ceil(leaseMs / 2)}::int * interval '1 millisecond')
      order by partition for update skip locked`
    const rows = await tx<{ partition: number; mine: boolean; members: number }[]>`
      select partition, coalesce(holder = ${member}, false) as mine,
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
      set holder = ${member}, held_until = clock_timestamp() + ${leaseMs}::int * interval '1 millisecond'
      where source = ${source} and partition = any(${kept.filter((partition) => idleOnes.has(partition))}::smallint[])`
    // Under load a partition is never idle, so this waits for the batch.
    await tx`
      update consumer_positions set holder = null
      where source = ${source} and partition = any(${given}::smallint[])`
    return kept
  })
}

export async function releasePartitions(sql: Sql, source: string, member: string): Promise<void> {
  await sql`update consumer_positions set holder = null where source = ${source} and holder = ${member}`
  await sql`delete from consumer_members where source = ${source} and member = ${member}`
}

/** Of all partitions, with the replica that reads each; none if its lease has ended. */
export async function listPositions(
  sql: Sql,
  source: string,
): Promise<(Position & { partition: number; moved_at: Date; holder: string | null })[]> {
  return sql<(Position & { partition: number; moved_at: Date; holder: string | null })[]>`
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
      held_until = clock_timestamp() + ${leaseMs}::int * interval '1 millisecond'
    where source = ${source} and partition = ${partition} and holder = ${member}
      and number = ${from.number} and done = ${from.done} and epochs = ${plainArray(from.epochs)}::text[]`
  return moved.count === 1
}
