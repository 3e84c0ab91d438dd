import type { Sql, Transaction } from '@licensing/database/connect'
import { findSessionsById } from '../checkout-sessions/session-queries.ts'
import type { SessionRow } from '../checkout-sessions/session-queries.ts'
import { findPaymentsOfSessions } from '../payments/payment-queries.ts'
import type { Fact } from '../processors/facts.ts'
import { findRefundsOfSessions } from '../refunds/refund-queries.ts'
import type { History, LedgerEntry, Question, QuestionKind, RecordedFact } from './history.ts'

export interface DueFulfilment {
  purchase_ref: string
  ordered_at: Date | null
  attempts: number
}

/** Accounts with purchases to decide about, by id. A step of the index for each, however many of them wait. */
export async function listDueAccounts(sql: Sql, after: string, most: number): Promise<string[]> {
  const rows = await sql<{ account_id: string }[]>`
    with recursive waiting as (
      (select account_id from fulfilments where due_at is not null and account_id > ${after}
        order by account_id limit 1)
      union all
      select (
        select f.account_id from fulfilments f
        where f.due_at is not null and f.account_id > w.account_id order by f.account_id limit 1
      )
      from waiting w where w.account_id is not null
    )
    select account_id from waiting w where account_id is not null and exists (
      select 1 from fulfilments f where f.account_id = w.account_id and f.due_at <= clock_timestamp()
    ) limit ${most}`
  return rows.map((row) => row.account_id)
}

/** Takes purchases of each account, the one that is due longest first, until the end of the transaction. */
export async function claimDue(
  tx: Transaction,
  accountIds: string[],
  each: number,
): Promise<DueFulfilment[]> {
  return tx<DueFulfilment[]>`
    select f.purchase_ref, f.ordered_at, f.attempts
    from unnest(${accountIds}::text[]) as a (account_id) cross join lateral (
      select purchase_ref, ordered_at, attempts from fulfilments
      where account_id = a.account_id and due_at <= clock_timestamp()
      order by due_at limit ${each} for update skip locked
    ) f`
}

export async function claimDueOne(tx: Transaction, purchaseRef: string): Promise<DueFulfilment[]> {
  return tx<DueFulfilment[]>`
    select purchase_ref, ordered_at, attempts from fulfilments
    where purchase_ref = ${purchaseRef} and due_at is not null for update skip locked`
}

export async function postponeDecision(sql: Sql, purchaseRef: string, delayMs: number): Promise<void> {
  await sql`
    update fulfilments set attempts = attempts + 1,
      due_at = clock_timestamp() + ${delayMs}::int * interval '1 millisecond'
    where purchase_ref = ${purchaseRef}`
}

/** The histories of these purchases, each whole, in a handful of statements. */
export async function loadHistories(tx: Transaction, due: DueFulfilment[]): Promise<History[]> {
  const ids = due.map((each) => each.purchase_ref)
  const [sessions, facts, payments, refunds, ledger, effects, questions] = await Promise.all([
    findSessionsById(tx, ids),
    findFacts(tx, ids),
    findPaymentsOfSessions(tx, ids),
    findRefundsOfSessions(tx, ids),
    findLedger(tx, ids),
    findEffectKeys(tx, ids),
    findQuestions(tx, ids),
  ])
  const plans = await findPlansOfPrices(tx, sessions, facts)
  const bySession = {
    facts: Map.groupBy(facts, (row) => row.session_id),
    payments: Map.groupBy(payments, (row) => row.session_id),
    refunds: Map.groupBy(refunds, (row) => row.session_id),
    ledger: Map.groupBy(ledger, (row) => row.session_id),
    effects: Map.groupBy(effects, (row) => row.purchase_ref),
    questions: Map.groupBy(questions, (row) => row.purchase_ref),
  }
  const orderedAt = new Map(due.map((each) => [each.purchase_ref, each.ordered_at ?? undefined]))
  return sessions.map((session) => ({
    session,
    facts: bySession.facts.get(session.id) ?? [],
    payments: bySession.payments.get(session.id) ?? [],
    refunds: bySession.refunds.get(session.id) ?? [],
    ledger: bySession.ledger.get(session.id) ?? [],
    effects: new Set((bySession.effects.get(session.id) ?? []).map((row) => row.effect_key)),
    questions: bySession.questions.get(session.id) ?? [],
    planOfPrice: plans.get(session.application_id) ?? new Map(),
    orderedAt: orderedAt.get(session.id),
  }))
}

async function findFacts(sql: Sql, ids: string[]): Promise<(RecordedFact & { session_id: string })[]> {
  const rows = await sql<{ session_id: string; body: Fact; recorded_at: Date }[]>`
    select session_id, body, recorded_at from facts
    where session_id = any(${ids}) order by session_id, position`
  return rows.map((row) => ({
    session_id: row.session_id,
    fact: row.body,
    recordedAt: row.recorded_at,
  }))
}

async function findLedger(sql: Sql, ids: string[]): Promise<(LedgerEntry & { session_id: string })[]> {
  return sql<(LedgerEntry & { session_id: string })[]>`
    select f.id, f.payment_id, f.kind, f.cause, f.period, f.currency, f.amount_minor, p.session_id
    from payments p join fee_entries f on f.payment_id = p.id
    where p.session_id = any(${ids}) order by f.id`
}

async function findEffectKeys(
  sql: Sql,
  ids: string[],
): Promise<{ purchase_ref: string; effect_key: string }[]> {
  return sql<{ purchase_ref: string; effect_key: string }[]>`
    select purchase_ref, effect_key from purchase_effects where purchase_ref = any(${ids})`
}

async function findQuestions(sql: Sql, ids: string[]): Promise<(Question & { purchase_ref: string })[]> {
  const rows = await sql<
    {
      purchase_ref: string
      kind: QuestionKind
      ref: string
      attempts: number
      found: boolean | null
    }[]
  >`
    select purchase_ref, kind, ref, attempts, found from processor_questions
    where purchase_ref = any(${ids})`
  return rows.map(({ found, ...row }) => ({
    ...row,
    found: found ?? undefined,
  }))
}

/** By application, the plans that the prices of paid invoices are mapped to. */
async function findPlansOfPrices(
  sql: Sql,
  sessions: SessionRow[],
  facts: RecordedFact[],
): Promise<Map<string, Map<string, string>>> {
  const priceRefs = facts.flatMap(({ fact }) =>
    fact.kind === 'invoice_paid' && fact.reason !== 'first' && fact.priceRef !== undefined
      ? [fact.priceRef]
      : [],
  )
  if (priceRefs.length === 0) return new Map()
  const rows = await sql<{ application_id: string; price_id: string; plan_id: string }[]>`
    select application_id, price_id, plan_id from prices
    where account_id = any(${sessions.map((session) => session.account_id)}) and price_id = any(${priceRefs})`
  const groups = Map.groupBy(rows, (row) => row.application_id)
  return new Map(
    [...groups].map(([id, group]) => [id, new Map(group.map((row) => [row.price_id, row.plan_id]))]),
  )
}
