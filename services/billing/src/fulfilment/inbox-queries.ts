import type { Sql, Transaction } from '@licensing/database/connect'

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
  attempts: number
}

/** Merchants whose events wait, by name. A step of the index for each, however many of them wait. */
export async function listWaitingMerchants(sql: Sql, after: string, most: number): Promise<string[]> {
  const rows = await sql<{ merchant: string }[]>`
    with recursive waiting as (
      (
        select merchant from processor_events
        where handled_at is null and not parked and merchant > ${after} order by merchant limit 1
      )
      union all
      select (
        select e.merchant from processor_events e
        where e.handled_at is null and not e.parked and e.merchant > w.merchant order by e.merchant limit 1
      )
      from waiting w where w.merchant is not null
    )
    select merchant from waiting where merchant is not null limit ${most}`
  return rows.map((row) => row.merchant)
}

/** Takes events of each merchant, oldest first, until the end of the transaction. */
export async function claimEvents(tx: Transaction, merchants: string[], each: number): Promise<InboxEvent[]> {
  return tx<InboxEvent[]>`
    select e.position, e.event_id, m.merchant, e.type, e.body, e.attempts
    from unnest(${merchants}::text[]) as m (merchant) cross join lateral (
      select position, event_id, type, body, attempts from processor_events
      where merchant = m.merchant and handled_at is null and not parked and due_at <= clock_timestamp()
      order by position limit ${each} for update skip locked
    ) e`
}

export async function claimEvent(tx: Transaction, position: bigint): Promise<InboxEvent[]> {
  return tx<InboxEvent[]>`
    select position, event_id, merchant, type, body, attempts from processor_events
    where position = ${position} and handled_at is null and not parked for update skip locked`
}

/** Done. The bodies go: they hold customers' data, and the processor has them. */
export async function finishEvents(tx: Transaction, positions: bigint[]): Promise<void> {
  await tx`
    update processor_events set handled_at = clock_timestamp(), body = null, last_error = null, parked = false
    where position = any(${positions.map(String)}::bigint[])`
}

export async function postponeEvent(
  sql: Sql,
  position: bigint,
  problem: { error: string; parked: boolean; delayMs: number },
): Promise<void> {
  await sql`
    update processor_events set attempts = attempts + 1, last_error = ${problem.error}, parked = ${problem.parked},
      due_at = clock_timestamp() + ${problem.delayMs}::int * interval '1 millisecond'
    where position = ${position} and handled_at is null`
}

/** Kept until it is understood, or a person decides about it. */
export async function parkEvents(
  tx: Transaction,
  events: { position: bigint; reason: string }[],
): Promise<void> {
  await tx`
    update processor_events e set parked = true, attempts = e.attempts + 1, last_error = p.reason
    from unnest(${events.map((event) => String(event.position))}::bigint[],
      ${events.map((event) => event.reason)}::text[]) as p (position, reason)
    where e.position = p.position`
}

/** What was parked is looked at again: a new release may understand it. */
export async function unparkEvents(sql: Sql): Promise<number> {
  const unparked = await sql`
    update processor_events set parked = false, due_at = clock_timestamp() where parked and handled_at is null`
  return unparked.count
}

export interface Backlog {
  waiting: number
  parked: number
  due: number
  effects: number
  questions: number
}

export async function countBacklog(sql: Sql): Promise<Backlog> {
  const [row] = await sql<Backlog[]>`
    select
      (select count(*) from processor_events where handled_at is null and not parked)::int as waiting,
      (select count(*) from processor_events where parked)::int as parked,
      (select count(*) from fulfilments where due_at is not null)::int as due,
      (select count(*) from fulfilments where carry_at is not null)::int as effects,
      (select count(*) from processor_questions where next_at is not null)::int as questions`
  return row!
}

/** What nothing needs any more, a part at a time. @returns how many rows went */
export async function purgeHandled(
  sql: Sql,
  kept: { events: number; facts: number },
  most: number,
): Promise<number> {
  const before = (ms: number) => sql`clock_timestamp() - ${ms}::float8 * interval '1 millisecond'`
  const [events, facts] = await Promise.all([
    sql`
      delete from processor_events where position in (
        select position from processor_events where handled_at < ${before(kept.events)} limit ${most}
      )`,
    sql`
      delete from facts where position in (
        select position from facts where session_id is null and recorded_at < ${before(kept.facts)} limit ${most}
      )`,
  ])
  return events.count + facts.count
}
