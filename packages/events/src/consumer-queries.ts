import type { Database, Sql } from '@licensing/database/connect'
import { brokenConstraint } from '@licensing/database/problems'
import { transaction } from '@licensing/database/transaction'

/**
 * Renews this member's partitions, takes free ones up to its fair share and gives up what is over it. Waits for no batch
 * of a partition that it keeps: that one is left as it is, since the batch itself renews the lease.
 *
 * @returns the partitions held now
 */
export async function leasePartitions(
  sql: Database,
  lease: { stream: string; member: string; leaseMs: number; partitionCount: number },
): Promise<number[]> {
  const { stream, member, leaseMs, partitionCount } = lease
  return transaction(sql, async (tx) => {
    // Not by a conflict alone: to find one it would wait for the transaction that is changing the row.
    await tx`
      insert into consumer_positions (stream, partition)
      select ${stream}, partition from generate_series(0, ${partitionCount - 1}) as partition
      where not exists (
        select 1 from consumer_positions known where known.stream = ${stream} and known.partition = partition.partition
      )
      on conflict do nothing`
    await tx`
      insert into consumer_members (stream, member, seen_at) values (${stream}, ${member}, clock_timestamp())
      on conflict (stream, member) do update set seen_at = excluded.seen_at`
    await tx`
      delete from consumer_members
      where stream = ${stream} and seen_at < clock_timestamp() - ${leaseMs}::int * interval '1 millisecond'`
    // Of what is busy the lease is new, and nothing is locked.
    const idle = await tx<{ partition: number; free: boolean }[]>`
      select partition, (holder is null or held_until < clock_timestamp()) as free
      from consumer_positions
      where stream = ${stream}
        and (holder is null or held_until < clock_timestamp() + ${Math.ceil(leaseMs / 2)}::int * interval '1 millisecond')
      order by partition for update skip locked`
    const rows = await tx<{ partition: number; mine: boolean; members: number }[]>`
      select partition, coalesce(holder = ${member}, false) as mine,
        (select count(*)::int from consumer_members m where m.stream = ${stream}) as members
      from consumer_positions where stream = ${stream} order by partition`
    const share = Math.ceil(partitionCount / Math.max(1, rows[0]?.members ?? 1))
    const idleOnes = new Set(idle.map(({ partition }) => partition))
    const mine = rows.filter((row) => row.mine).map((row) => row.partition)
    const free = idle.filter((row) => row.free && !mine.includes(row.partition)).map((row) => row.partition)
    const kept = [...mine, ...free].slice(0, share)
    const given = mine.filter((partition) => !kept.includes(partition))
    await tx`
      update consumer_positions
      set holder = ${member}, held_until = clock_timestamp() + ${leaseMs}::int * interval '1 millisecond'
      where stream = ${stream} and partition = any(${kept.filter((partition) => idleOnes.has(partition))}::smallint[])`
    // What is given up is waited for: under load it would never be idle.
    await tx`
      update consumer_positions set holder = null
      where stream = ${stream} and partition = any(${given}::smallint[])`
    return kept
  })
}

export async function releasePartitions(sql: Sql, stream: string, member: string): Promise<void> {
  await sql`update consumer_positions set holder = null where stream = ${stream} and holder = ${member}`
  await sql`delete from consumer_members where stream = ${stream} and member = ${member}`
}

/** The position after which to read; 0 where the stream was recreated since. */
export async function findPosition(
  sql: Sql,
  stream: string,
  partition: number,
  streamCreated: string,
): Promise<bigint> {
  const [row] = await sql<{ position: bigint }[]>`
    update consumer_positions
    set position = case when stream_created = ${streamCreated} then position else 0 end,
      stream_created = ${streamCreated}
    where stream = ${stream} and partition = ${partition}
    returning position`
  return row?.position ?? 0n
}

/**
 * Moves a position by compare-and-swap, and renews the lease; false where another replica has moved it or holds the
 * partition.
 */
export async function movePosition(
  sql: Sql,
  move: { stream: string; partition: number; member: string; from: bigint; to: bigint; leaseMs: number },
): Promise<boolean> {
  const moved = await sql`
    update consumer_positions
    set position = ${move.to}, held_until = clock_timestamp() + ${move.leaseMs}::int * interval '1 millisecond'
    where stream = ${move.stream} and partition = ${move.partition}
      and position = ${move.from} and holder = ${move.member}`
  return moved.count === 1
}

/**
 * Records events as consumed that are new, as nearly all are: "on conflict" takes two to five times as long.
 *
 * @throws an error that `isConsumedBefore` where one of them is not, which ends the transaction
 */
export async function recordNew(sql: Sql, ids: string[]): Promise<void> {
  await sql`insert into consumed_events (event_id) select unnest(${ids}::text[])`
}

export function isConsumedBefore(error: unknown): boolean {
  return brokenConstraint(error) === 'consumed_events_pkey'
}

/** Records events as consumed. @returns the ids that were not recorded before */
export async function recordConsumed(sql: Sql, ids: string[]): Promise<Set<string>> {
  const rows = await sql<{ event_id: string }[]>`
    insert into consumed_events (event_id) select distinct unnest(${ids}::text[])
    on conflict do nothing returning event_id`
  return new Set(rows.map((row) => row.event_id))
}

/** Records an event as gone to the dead-letter stream. */
export async function recordDeadLettered(sql: Sql, eventId: string): Promise<void> {
  await sql`insert into dead_lettered_events (event_id) values (${eventId}) on conflict do nothing`
}

/** Positions of all partitions, by partition. */
export async function listPositions(sql: Sql, stream: string): Promise<Map<number, bigint>> {
  const rows = await sql<{ partition: number; position: bigint }[]>`
    select partition, position from consumer_positions where stream = ${stream}`
  return new Map(rows.map((row) => [row.partition, row.position]))
}

/** Forgets ids of events older than any copy of them can be. */
export async function pruneConsumed(sql: Sql, olderThanDays: number): Promise<void> {
  await sql`delete from consumed_events where consumed_at < now() - ${olderThanDays}::int * interval '1 day'`
  await sql`
    delete from dead_lettered_events where dead_lettered_at < now() - ${olderThanDays}::int * interval '1 day'`
}
