import type { Sql } from '@licensing/database/connect'

/** An event that a stream holds before the position and that had no effect. */
export interface MissedEvent {
  stream: string
  seq: bigint
  event_id: string
  found_at: Date
}

/**
 * The part of a partition that was consumed and not compared yet. What was found in a stream that was recreated since
 * is forgotten: it cannot be read any more.
 */
export async function findAuditRange(
  sql: Sql,
  stream: string,
  partition: number,
  streamCreated: string,
): Promise<{ after: bigint; upTo: bigint }> {
  await sql`
    with recreated as (
      update consumer_positions set audited = 0, audited_created = ${streamCreated}
      where stream = ${stream} and partition = ${partition} and audited_created is distinct from ${streamCreated}
      returning stream, partition
    )
    delete from missed_events m using recreated r where m.stream = r.stream and m.partition = r.partition`
  const [row] = await sql<{ audited: bigint; up_to: bigint }[]>`
    select audited, case when stream_created = ${streamCreated} then position else 0 end as up_to
    from consumer_positions where stream = ${stream} and partition = ${partition}`
  return { after: row?.audited ?? 0n, upTo: row?.up_to ?? 0n }
}

/** Records which of these had no effect, and how far the comparison has come. @returns how many were found now */
export async function recordAudited(
  sql: Sql,
  audited: {
    stream: string
    partition: number
    upTo: bigint
    messages: { seq: number; eventId: string }[]
  },
): Promise<number> {
  const { stream, partition, upTo, messages } = audited
  const found = await sql`
    insert into missed_events (stream, seq, partition, event_id)
    select ${stream}, seq, ${partition}, message.event_id
    from unnest(
      ${messages.map(({ seq }) => String(seq))}::bigint[], ${messages.map(({ eventId }) => eventId)}::text[]
    ) as message (seq, event_id)
    where not exists (select from consumed_events known where known.event_id = message.event_id)
      and not exists (select from dead_lettered_events known where known.event_id = message.event_id)
    on conflict do nothing`
  await sql`
    update consumer_positions set audited = greatest(audited, ${upTo})
    where stream = ${stream} and partition = ${partition}`
  return found.count
}

export async function countMissed(sql: Sql, stream: string): Promise<number> {
  const [row] = await sql<{ count: number }[]>`
    select count(*)::int as count from missed_events where stream = ${stream}`
  return row?.count ?? 0
}

/** In the order of the stream, after a sequence. */
export async function listMissed(
  sql: Sql,
  stream: string,
  after: bigint,
  limit: number,
): Promise<MissedEvent[]> {
  return sql<MissedEvent[]>`
    select stream, seq, event_id, found_at from missed_events
    where stream = ${stream} and seq > ${after} order by seq limit ${limit}`
}

/** Takes events off the list. Another that does so at the same time waits, and finds fewer. */
export async function removeMissed(sql: Sql, stream: string, seqs: bigint[]): Promise<void> {
  await sql`delete from missed_events where stream = ${stream} and seq = any(${seqs.map(String)}::bigint[])`
}
