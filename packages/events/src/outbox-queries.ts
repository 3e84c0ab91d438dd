import type { Sql } from '@licensing/database/connect'
import { locks } from '@licensing/database/locks'

/** An event about to be written, in the bytes that are published. */
export interface NewOutboxRow {
  id: string
  partition: number
  name: string
  payload: Uint8Array
}

interface OutboxRow {
  position: bigint
  event_id: string
  partition: number
  name: string
  payload: Buffer
  trace_parent: string | null
  age_seconds: number
}

export async function insertEvents(
  tx: Sql,
  events: NewOutboxRow[],
  traceParent: string | null,
): Promise<void> {
  await tx`
    insert into outbox (event_id, partition, name, payload, trace_parent)
    select event_id, partition, name, decode(payload, 'base64'), ${traceParent}
    from unnest(
      ${events.map((event) => event.id)}::text[],
      ${events.map((event) => event.partition)}::smallint[],
      ${events.map((event) => event.name)}::text[],
      ${events.map((event) => Buffer.from(event.payload).toString('base64'))}::text[]
    ) with ordinality as event (event_id, partition, name, payload, place)
    order by place`
}

/** Until the transaction ends no other relay publishes from this database. @returns false where another does */
export async function lockRelay(tx: Sql): Promise<boolean> {
  const [lock] = await tx<{ locked: boolean }[]>`select pg_try_advisory_xact_lock(${locks.relay}) as locked`
  return lock?.locked ?? false
}

/** Events to publish, in the order of their commits. */
export async function listUnpublished(tx: Sql, limit: number): Promise<OutboxRow[]> {
  return tx<OutboxRow[]>`
    select position, event_id, partition, name, payload, trace_parent,
      extract(epoch from clock_timestamp() - created_at)::float8 as age_seconds
    from outbox order by position limit ${limit}`
}

export async function deletePublished(tx: Sql, positions: bigint[]): Promise<void> {
  await tx`delete from outbox where position = any(${positions.map(String)}::bigint[])`
}
