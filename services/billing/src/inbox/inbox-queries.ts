import type { Sql } from '@licensing/database/connect'

export interface NewInboxEvent {
  processor: string
  eventId: string
  merchant: string
  type: string
  body: Uint8Array
}

/** @returns false where the event is there already */
export async function insertEvent(sql: Sql, event: NewInboxEvent): Promise<boolean> {
  const inserted = await sql`
    insert into processor_events (processor, event_id, merchant, type, body)
    values (${event.processor}, ${event.eventId}, ${event.merchant}, ${event.type}, ${Buffer.from(event.body)})
    on conflict (processor, event_id) do nothing`
  return inserted.count === 1
}

export interface InboxEvent {
  position: bigint
  event_id: string
  merchant: string
  type: string
  body: Buffer
  /** How often it has been taken up, this time included. */
  attempts: number
  parked: boolean
  received_at: Date
}

/**
 * Takes events that are due; whoever takes one has `leaseMs` before another does. What has not been looked at yet goes
 * first: it may tell what came before that which waits.
 */
export async function claimEvents(sql: Sql, most: number, leaseMs: number): Promise<InboxEvent[]> {
  return sql<InboxEvent[]>`
    update processor_events set attempts = attempts + 1,
      next_at = clock_timestamp() + ${leaseMs}::int * interval '1 millisecond'
    where position in (
      select position from processor_events where handled_at is null and next_at <= clock_timestamp()
      order by attempts > 0, next_at, position limit ${most} for update skip locked
    )
    returning position, event_id, merchant, type, body, attempts, parked, received_at`
}

/** Whoever works on these events still does. */
export async function renewLeases(sql: Sql, positions: bigint[], leaseMs: number): Promise<void> {
  await sql`
    update processor_events set next_at = clock_timestamp() + ${leaseMs}::int * interval '1 millisecond'
    where position = any(${positions.map(String)}::bigint[]) and handled_at is null`
}

/** Done. The body goes: it holds customers' data, and the processor has it. */
export async function finishEvent(sql: Sql, position: bigint): Promise<void> {
  await sql`
    update processor_events set handled_at = clock_timestamp(), body = null, last_error = null, parked = false
    where position = ${position}`
}

export async function postponeEvent(
  sql: Sql,
  position: bigint,
  at: Date,
  problem: { error: string; parked: boolean } | undefined,
): Promise<void> {
  await sql`
    update processor_events set next_at = ${at}
      ${problem ? sql`, last_error = ${problem.error}, parked = ${problem.parked}` : sql``}
    where position = ${position}`
}

/** What the event tells is stored: others need not wait for it. */
export async function markRecorded(sql: Sql, position: bigint): Promise<void> {
  await sql`update processor_events set recorded = true where position = ${position} and not recorded`
}

/** Whether there are events of a merchant whose facts are not stored yet; those that cannot be read do not count. */
export async function isNewsWaiting(sql: Sql, merchant: string): Promise<boolean> {
  const [row] = await sql<{ waiting: boolean }[]>`
    select exists (
      select 1 from processor_events
      where handled_at is null and not recorded and merchant = ${merchant} and attempts <= 3
    ) as waiting`
  return row!.waiting
}

/** When the next event is due; undefined where none waits. */
export async function nextDue(sql: Sql): Promise<Date | undefined> {
  const [row] = await sql<{ at: Date | null }[]>`
    select min(next_at) as at from processor_events where handled_at is null`
  return row?.at ?? undefined
}

export async function countWaiting(sql: Sql): Promise<{ waiting: number; parked: number }> {
  const [row] = await sql<{ waiting: number; parked: number }[]>`
    select count(*)::int as waiting, (count(*) filter (where parked))::int as parked
    from processor_events where handled_at is null`
  return row!
}
