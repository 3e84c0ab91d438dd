import type { Sql, Transaction } from '@licensing/database/connect'
import type { Fact } from '../processors/facts.ts'
import { insertRows, rowsOf } from '../row-queries.ts'

export interface NewInboxEvent {
  processor: string
  eventId: string
  merchant: string
  type: string
  body: Uint8Array
}

/** @returns false where the event is there already */
export async function insertEvent(sql: Sql, event: NewInboxEvent): Promise<boolean> {
  return (await insertEvents(sql, [event])) === 1
}

/** In this order. @returns how many were not there already */
export async function insertEvents(sql: Sql, events: NewInboxEvent[]): Promise<number> {
  let inserted = 0
  for (let from = 0; from < events.length; from += insertedTogether) {
    const rows = events.slice(from, from + insertedTogether).map(({ eventId: event_id, body, ...event }) => {
      return { ...event, event_id, body: Buffer.from(body) }
    })
    const result = await sql`
      insert into processor_events ${sql(rows, 'processor', 'event_id', 'merchant', 'type', 'body')}
      on conflict (processor, event_id) do nothing`
    inserted += result.count
  }
  return inserted
}

const insertedTogether = 500

/** Which of these events are in the inbox, or have been. */
export async function findKnownEvents(sql: Sql, processor: string, eventIds: string[]): Promise<Set<string>> {
  const rows = await sql<{ event_id: string }[]>`
    select event_id from processor_events where processor = ${processor} and event_id = any(${eventIds})`
  return new Set(rows.map((row) => row.event_id))
}

/** Done, but for those that are parked. The bodies go: they hold customers' data, and the processor has them. */
export async function finishEvents(tx: Transaction, positions: bigint[]): Promise<void> {
  await tx`
    update processor_events set handled_at = clock_timestamp(), body = null, last_error = null
    where position = any(${positions.map(String)}::bigint[]) and not parked`
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

/** Kept until it is understood, or a person decides about it. */
export async function parkEvents(
  tx: Transaction,
  events: { position: bigint; last_error: string }[],
): Promise<void> {
  await tx`
    update processor_events e set parked = true, attempts = e.attempts + 1, last_error = p.last_error
    from ${rowsOf(tx, 'processor_events', events)} p
    where e.position = p.position and e.handled_at is null`
}

/** What was parked is looked at again: a new release may understand it. */
export async function unparkEvents(sql: Sql): Promise<number> {
  const unparked = await sql`
    update processor_events set parked = false, due_at = clock_timestamp() where parked and handled_at is null`
  return unparked.count
}

export interface NewFact {
  merchant: string
  /** The event's id, or what the processor's records said. */
  sourceKey: string
  fact: Fact
}

/** One recorder of a merchant's facts at a time, so that of two facts that are linked the later finds the earlier. */
export async function lockMerchants(tx: Transaction, merchants: string[]): Promise<void> {
  const sorted = [...new Set(merchants)].sort()
  await tx`
    select pg_advisory_xact_lock(hashtextextended(merchant, 0))
    from unnest(${sorted}::text[]) with ordinality as m (merchant, place) order by place`
}

export interface Link {
  merchant: string
  ref: string
  session_id: string
}

export async function findLinks(sql: Sql, refs: { merchant: string; ref: string }[]): Promise<Link[]> {
  return sql<Link[]>`
    select merchant, ref, session_id from purchase_links
    where (merchant, ref) in (
      select merchant, ref from unnest(${refs.map((each) => each.merchant)}::text[],
        ${refs.map((each) => each.ref)}::text[]) as r (merchant, ref)
    )`
}

/** Which of these sessions there are. A session is found by its own merchant alone. */
export async function findSessionsOf(
  sql: Sql,
  named: { merchant: string; id: string }[],
): Promise<Set<string>> {
  if (named.length === 0) return new Set()
  const rows = await sql<{ id: string }[]>`
    select s.id from ${rowsOf(sql, 'checkout_sessions', named)} n
    join checkout_sessions s on s.id = n.id and s.merchant = n.merchant`
  return new Set(rows.map((row) => row.id))
}

export interface WaitingFact {
  position: bigint
  merchant: string
  refs: string[]
}

/** Facts of no known purchase that name any of these ids: a look into the index for each. */
export async function findWaitingFacts(sql: Sql, refs: string[]): Promise<WaitingFact[]> {
  return sql<WaitingFact[]>`
    select distinct on (f.position) f.position, f.merchant, f.refs
    from unnest(${refs}::text[]) as r (ref) join facts f on f.session_id is null and f.refs @> array[r.ref]
    order by f.position`
}

export async function insertLinks(tx: Transaction, links: Link[]): Promise<void> {
  await insertRows(tx, 'purchase_links', links, tx`on conflict do nothing`)
}

export async function insertFacts(
  tx: Transaction,
  facts: (NewFact & { refs: string[]; sessionId: string | undefined })[],
): Promise<void> {
  const rows = facts.map(({ merchant, sourceKey, fact, refs, sessionId }) => ({
    merchant,
    source_key: sourceKey,
    session_id: sessionId ?? null,
    refs,
    body: fact,
  }))
  await insertRows(tx, 'facts', rows, tx`on conflict (merchant, source_key) do nothing`)
}

export async function linkWaitingFacts(
  tx: Transaction,
  linked: { position: bigint; session_id: string | undefined }[],
): Promise<void> {
  if (linked.length === 0) return
  await tx`
    update facts f set session_id = l.session_id from ${rowsOf(tx, 'facts', linked)} l
    where f.position = l.position`
}

/** Something happened to these purchases. */
export async function markDue(tx: Transaction, sessionIds: string[]): Promise<void> {
  const sorted = [...new Set(sessionIds)].sort()
  if (sorted.length === 0) return
  await tx`
    insert into fulfilments as f (purchase_ref, account_id, due_at)
    select id, account_id, clock_timestamp() from checkout_sessions where id = any(${sorted}) order by id
    on conflict (purchase_ref) do update set due_at = least(f.due_at, excluded.due_at)`
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
