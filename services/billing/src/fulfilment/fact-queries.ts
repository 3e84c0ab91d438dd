import type { Sql, Transaction } from '@licensing/database/connect'
import { refsOf } from '../processors/facts.ts'
import type { Fact } from '../processors/facts.ts'
import { jsonRows } from '../json-rows.ts'

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

interface Link {
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
  named: { merchant: string; sessionId: string }[],
): Promise<Set<string>> {
  const rows = await sql<{ id: string }[]>`
    select s.id from checkout_sessions s
    join unnest(${named.map((each) => each.merchant)}::text[], ${named.map((each) => each.sessionId)}::text[])
      as n (merchant, id) on n.id = s.id and n.merchant = s.merchant`
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
  await tx`
    insert into purchase_links (merchant, ref, session_id)
    select merchant, ref, session_id from jsonb_to_recordset(${jsonRows(links)}::text::jsonb)
      as l (merchant text, ref text, session_id text)
    on conflict do nothing`
}

export async function insertFacts(
  tx: Transaction,
  facts: (NewFact & { sessionId: string | undefined })[],
): Promise<void> {
  const rows = facts.map(({ merchant, sourceKey, fact, sessionId }) => ({
    merchant,
    source_key: sourceKey,
    session_id: sessionId ?? null,
    refs: refsOf(fact),
    body: fact,
  }))
  await tx`
    insert into facts (merchant, source_key, session_id, refs, body)
    select merchant, source_key, session_id, refs, body from jsonb_to_recordset(${jsonRows(rows)}::text::jsonb)
      as f (merchant text, source_key text, session_id text, refs text[], body jsonb)
    on conflict (merchant, source_key) do nothing`
}

export async function linkWaitingFacts(
  tx: Transaction,
  linked: { position: bigint; sessionId: string }[],
): Promise<void> {
  await tx`
    update facts f set session_id = l.session_id
    from unnest(${linked.map((each) => String(each.position))}::bigint[],
      ${linked.map((each) => each.sessionId)}::text[]) as l (position, session_id)
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
