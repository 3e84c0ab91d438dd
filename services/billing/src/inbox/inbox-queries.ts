import type { Sql, Transaction } from '@licensing/database/connect'
import { insertRows, rowsOf } from '@licensing/database/row-queries'
import type { RowOf } from '@licensing/grpc/fields'
import type { ProcessorEventSchema } from '@licensing/proto/billing-operations'
import { merchantStays } from '../queues/queue-queries.ts'

export interface NewInboxEvent {
  processor: string
  eventId: string
  merchant: string
  type: string
  body: Uint8Array
}

/**
 * Inserts an event that the processor delivered. It replaces an event that is dead-lettered, because the delivery has the API
 * version that the endpoint is set to.
 *
 * @returns false if there is nothing new to read
 */
export async function insertDelivery(
  sql: Sql,
  { processor, eventId, merchant, type, body }: NewInboxEvent,
): Promise<boolean> {
  const { count } = await sql`
    insert into processor_events as e (processor, event_id, merchant, type, body)
    values (${processor}, ${eventId}, ${merchant}, ${type}, ${Buffer.from(body)})
    on conflict (processor, event_id) do update set body = excluded.body, dead_lettered = false, due_at = now(), attempts = 0
    where e.dead_lettered and e.handled_at is null and e.merchant = excluded.merchant`
  return count > 0
}

/** Inserts listed events in this order. */
export async function insertEvents(sql: Sql, events: NewInboxEvent[]): Promise<void> {
  const rows = events.map(({ processor, eventId: event_id, merchant, type, body }) => {
    return { processor, event_id, merchant, type, body }
  })
  await insertRows(sql, 'processor_events', rows, sql`on conflict (processor, event_id) do nothing`)
}

/** Which of these events are or were in the inbox. */
export async function findKnownEvents(sql: Sql, processor: string, eventIds: string[]): Promise<Set<string>> {
  const rows = await sql<{ event_id: string }[]>`
    select event_id from processor_events where processor = ${processor} and event_id = any(${eventIds})`
  return new Set(rows.map((row) => row.event_id))
}

/**
 * Marks events as handled, unless they are dead-lettered. The bodies are deleted: they contain customers' data, and the
 * processor keeps them.
 */
export async function finishEvents(tx: Transaction, positions: bigint[]): Promise<void> {
  await tx`
    update processor_events set handled_at = clock_timestamp(), body = null, last_error = null
    where position = any(${positions.map(String)}::bigint[]) and not dead_lettered`
}

export async function postponeEvent(
  sql: Sql,
  position: bigint,
  error: string,
  delayMs: number,
): Promise<void> {
  await sql`
    update processor_events set attempts = attempts + 1, last_error = ${error},
      due_at = clock_timestamp() + ${delayMs}::int * interval '1 millisecond'
    where position = ${position} and handled_at is null`
}

/** Dead-letters events until a new version understands them or an operator decides. */
export async function deadLetterEvents(
  tx: Transaction,
  events: { position: bigint; last_error: string }[],
): Promise<void> {
  await tx`
    update processor_events e set dead_lettered = true, attempts = e.attempts + 1, last_error = p.last_error
    from ${rowsOf(tx, 'processor_events', events)} p
    where e.position = p.position and e.handled_at is null`
}

/** Makes all dead-lettered events due again: a new version may understand them. */
export async function retryDeadLettered(sql: Sql): Promise<number> {
  const freed = await sql`
    update processor_events set dead_lettered = false, due_at = clock_timestamp()
    where dead_lettered and handled_at is null and ${merchantStays(sql, 'merchant')}`
  return freed.count
}

/** Events that are dead-lettered or have failed. */
export async function listUnhandledEvents(
  sql: Sql,
  limit: number,
): Promise<RowOf<typeof ProcessorEventSchema>[]> {
  return sql<RowOf<typeof ProcessorEventSchema>[]>`
    select event_id, merchant, type, received_at, attempts, dead_lettered, last_error as reason from processor_events
    where handled_at is null and (dead_lettered or attempts > 0)
    order by position limit ${limit}`
}

/** @returns false if there is no such event, or if it was handled */
export async function retryEvent(sql: Sql, eventId: string): Promise<boolean> {
  const retried = await sql`
    update processor_events set dead_lettered = false, due_at = clock_timestamp()
    where event_id = ${eventId} and handled_at is null`
  return retried.count > 0
}

/** @returns false if there is no such event, or if it was handled */
export async function discardEvent(sql: Sql, eventId: string): Promise<boolean> {
  const discarded = await sql`
    update processor_events set dead_lettered = false, handled_at = clock_timestamp(), body = null,
      last_error = 'discarded by an operator'
    where event_id = ${eventId} and handled_at is null`
  return discarded.count > 0
}

/** @returns how many events it deleted */
export async function purgeHandledEvents(sql: Sql, keptMs: number, limit: number): Promise<number> {
  const purged = await sql`
    delete from processor_events where position in (
      select position from processor_events
      where handled_at < clock_timestamp() - ${keptMs}::float8 * interval '1 millisecond' limit ${limit}
    )`
  return purged.count
}
