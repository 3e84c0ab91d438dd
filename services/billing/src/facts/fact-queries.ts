import type { Sql, Transaction } from '@licensing/database/connect'
import type { Fact } from '../processor/facts.ts'
import { insertRows, rowsOf } from '@licensing/database/row-queries'
import { endsScheduledOf, factKey, mergeFacts } from './fact-state.ts'

export interface NewFact {
  merchant: string
  /** The id of the event; `records` for an answer of the processor. */
  sourceKey: string
  fact: Fact
}

/** Serializes the recording of a merchant's facts, so that of two linked facts the later one finds the earlier one. */
export async function lockMerchants(tx: Transaction, merchants: string[]): Promise<void> {
  const sorted = [...new Set(merchants)].sort()
  await tx`
    select pg_advisory_xact_lock(hashtextextended(merchant, 0))
    from unnest(${sorted}::text[]) with ordinality as m (merchant, ordinality) order by ordinality`
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
      select merchant, ref from ${rowsOf(sql, { merchant: 'text', ref: 'text' }, refs)} r
    )`
}

/** Which of these sessions exist, each with this merchant. */
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

/** Facts without a known purchase that contain any of these ids. It reads the index once for each id. */
export async function findWaitingFacts(sql: Sql, refs: string[]): Promise<WaitingFact[]> {
  return sql<WaitingFact[]>`
    select distinct on (f.position) f.position, f.merchant, f.refs
    from unnest(${refs}::text[]) as r (ref) join facts f on f.session_id is null and f.refs @> array[r.ref]
    order by f.position`
}

export async function insertLinks(tx: Transaction, links: Link[]): Promise<void> {
  await insertRows(tx, 'purchase_links', links, tx`on conflict do nothing`)
}

interface FactRow {
  merchant: string
  fact_key: string
  session_id: string | null
  refs: string[]
  body: Fact
}

/** Inserts facts, and merges those that are about the same as others. The caller has locked the merchants. */
export async function insertFacts(
  tx: Transaction,
  facts: (NewFact & { refs: string[]; sessionId: string | undefined })[],
): Promise<void> {
  const news = mergedByKey(
    facts.map(({ merchant, sourceKey, fact, refs, sessionId }) => ({
      merchant,
      fact_key: factKey(fact, sourceKey),
      session_id: sessionId ?? null,
      refs,
      body: fact,
    })),
  )
  const known = await tx<FactRow[]>`
    select f.merchant, f.fact_key, f.session_id, f.refs, f.body
    from ${rowsOf(tx, 'facts', news)} n join facts f on f.merchant = n.merchant and f.fact_key = n.fact_key`
  const knownKeys = new Set(known.map(nameOf))
  await insertRows(
    tx,
    'facts',
    news.filter((row) => !knownKeys.has(nameOf(row))),
  )
  const changed = mergedByKey([...known, ...news.filter((row) => knownKeys.has(nameOf(row)))])
  if (changed.length > 0) {
    await tx`
      update facts f set body = c.body, refs = c.refs, session_id = coalesce(f.session_id, c.session_id)
      from ${rowsOf(tx, 'facts', changed)} c where f.merchant = c.merchant and f.fact_key = c.fact_key
        and (f.body <> c.body or f.refs <> c.refs or f.session_id is null and c.session_id is not null)`
  }
  for (const { merchant, fact } of facts) {
    if (fact.kind === 'end_scheduled') await deleteEarlierEnds(tx, merchant, fact.subscriptionRef)
  }
}

const nameOf = ({ merchant, fact_key: key }: FactRow) => `${merchant} ${key}`

function mergedByKey(rows: FactRow[]): FactRow[] {
  return [...Map.groupBy(rows, nameOf).values()].map((same) =>
    same.reduce((merged, row) => ({
      ...merged,
      session_id: merged.session_id ?? row.session_id,
      refs: [...new Set([...merged.refs, ...row.refs])],
      body: mergeFacts(merged.body, row.body),
    })),
  )
}

const endsKept = 50

/** Only the newest changes of a subscription's end count, however often a customer changes it. */
async function deleteEarlierEnds(tx: Transaction, merchant: string, subscriptionRef: string): Promise<void> {
  const prefix = endsScheduledOf(subscriptionRef)
  await tx`
    delete from facts where position in (
      select position from facts
      where merchant = ${merchant} and fact_key > ${prefix} and fact_key < ${`${prefix.slice(0, -1)};`}
      order by (body->>'at')::bigint desc, position desc offset ${endsKept}
    )`
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

/** Marks these purchases as due for a decision. */
export async function markDue(tx: Transaction, sessionIds: string[]): Promise<void> {
  const sorted = [...new Set(sessionIds)].sort()
  if (sorted.length === 0) return
  await tx`
    insert into purchases as p (purchase_ref, account_id, decide_at)
    select id, account_id, clock_timestamp() from checkout_sessions where id = any(${sorted}) order by id
    on conflict (purchase_ref) do update set decide_at = least(p.decide_at, excluded.decide_at)`
}

/** @returns how many facts it deleted */
export async function purgeUnlinkedFacts(sql: Sql, keptMs: number, limit: number): Promise<number> {
  const purged = await sql`
    delete from facts where position in (
      select position from facts
      where session_id is null and recorded_at < clock_timestamp() - ${keptMs}::float8 * interval '1 millisecond'
      limit ${limit}
    )`
  return purged.count
}
