import type { Sql, Transaction } from '@licensing/database/connect'
import { findSessionsById } from '../../checkout-sessions/session-queries.ts'
import { findPaymentsOf } from '../../payments/payment-queries.ts'
import { findRefundsOf } from '../../refunds/refund-queries.ts'
import { findSalesById } from '../../sale-events/sale-event-queries.ts'
import { findFactsOfSales } from '../../sale-events/sale-fact-queries.ts'
import { readSaleFacts, sessionOfSale } from '../../sale-events/sale-facts.ts'
import { insertRows, rowsOf } from '@licensing/database/row-queries'
import { changingColumns } from './decide-payments.ts'
import { dayChanges, noteDayChanges } from '../../payment-days/day-changes.ts'
import type { PaymentRow } from '../../payments/payment-queries.ts'
import type { RefundRow } from '../../refunds/refund-queries.ts'
import type { Decision, History, LedgerEntry, MappedPrice, Question, SoldSession } from './decision.ts'
import type { RecordedFact } from './merge-facts.ts'
import type { DuePurchase, DueQuestion } from '../../queues/queue-queries.ts'

/** The complete histories of these purchases, in a few statements. */
export async function loadHistories(
  tx: Transaction,
  due: Pick<DuePurchase, 'purchase_ref' | 'ordered_at'>[],
): Promise<History[]> {
  const ids = due.map((each) => each.purchase_ref)
  const [checkouts, reported, sales, payments, refunds, ledger, effects, questions] = await Promise.all([
    findSessionsById(tx, ids),
    findFacts(tx, ids),
    findSoldElsewhere(tx, ids),
    findPaymentsOf(tx, ids).then(ofEach),
    findRefundsOf(tx, ids).then(ofEach),
    findLedger(tx, ids).then(ofEach),
    findEffectKeys(tx, ids).then(ofEach),
    findQuestions(tx, ids).then(ofEach),
  ])
  const sessions = [...checkouts.map((row) => ({ ...row, sale_id: null })), ...sales.sessions]
  const facts = ofEach([...reported, ...sales.facts])
  const prices = await findMappedPrices(tx, sessions, ids.flatMap(facts))
  const orderedAt = new Map(due.map((each) => [each.purchase_ref, each.ordered_at ?? undefined]))
  return sessions.map((session) => ({
    session,
    facts: facts(session.id),
    payments: payments(session.id),
    refunds: refunds(session.id),
    ledger: ledger(session.id),
    effects: new Set(effects(session.id).map((row) => row.effect_key)),
    questions: questions(session.id),
    prices: new Map(prices.get(session.application_id)?.map((row) => [row.price_id, row])),
    orderedAt: orderedAt.get(session.id),
  }))
}

type OfPurchase<Row> = Row & { purchase_ref: string }

function ofEach<Row>(rows: OfPurchase<Row>[]): (purchaseRef: string) => OfPurchase<Row>[] {
  const groups = Map.groupBy(rows, (row) => row.purchase_ref)
  return (purchaseRef) => groups.get(purchaseRef) ?? []
}

/** Sales of other shops in the form of checkout sessions, with the facts that the shops reported. */
async function findSoldElsewhere(
  sql: Sql,
  ids: string[],
): Promise<{ sessions: SoldSession[]; facts: OfPurchase<RecordedFact>[] }> {
  const sales = await findSalesById(sql, ids)
  const rows = await findFactsOfSales(sql, sales)
  const facts = sales.flatMap((sale) =>
    readSaleFacts(
      sale,
      rows.filter((row) => row.application_id === sale.application_id && row.sale_id === sale.sale_id),
    ).map((fact) => ({ ...fact, purchase_ref: sale.id })),
  )
  return { sessions: sales.map(sessionOfSale), facts }
}

async function findFacts(sql: Sql, ids: string[]): Promise<OfPurchase<RecordedFact>[]> {
  return sql<OfPurchase<RecordedFact>[]>`
    select session_id as purchase_ref, body as fact, recorded_at from facts
    where session_id = any(${ids}) order by session_id, position`
}

async function findLedger(sql: Sql, ids: string[]): Promise<OfPurchase<LedgerEntry>[]> {
  return sql<OfPurchase<LedgerEntry>[]>`
    select f.id, f.payment_id, f.kind, f.cause, f.amount_minor, f.currency, f.period, f.occurred_at, p.purchase_ref
    from payments p join fee_entries f on f.payment_id = p.id
    where p.purchase_ref = any(${ids}) order by f.id`
}

async function findEffectKeys(sql: Sql, ids: string[]): Promise<OfPurchase<{ effect_key: string }>[]> {
  return sql<OfPurchase<{ effect_key: string }>[]>`
    select purchase_ref, effect_key from purchase_effects where purchase_ref = any(${ids}) order by position`
}

async function findQuestions(sql: Sql, ids: string[]): Promise<OfPurchase<Question>[]> {
  return sql<OfPurchase<Question>[]>`
    select purchase_ref, kind, ref, attempts, found from processor_questions
    where purchase_ref = any(${ids})`
}

/** Prices of subscription items that a plan is mapped to, by application. */
async function findMappedPrices(
  sql: Sql,
  sessions: SoldSession[],
  facts: RecordedFact[],
): Promise<Map<string, (MappedPrice & { price_id: string })[]>> {
  const items = facts.flatMap(({ fact }) => {
    if (fact.kind === 'subscription') return fact.items
    return fact.kind === 'invoice_paid' ? [...(fact.lines ?? []), ...(fact.items ?? [])] : []
  })
  const priceRefs = [...new Set(items.map((item) => item.priceRef).filter((ref) => ref !== undefined))]
  if (priceRefs.length === 0) return new Map()
  const rows = await sql<(MappedPrice & { application_id: string; price_id: string })[]>`
    select application_id, price_id, plan_id, updates_months from prices
    where account_id = any(${sessions.map((session) => session.account_id)}) and price_id = any(${priceRefs})`
  return Map.groupBy(rows, (row) => row.application_id)
}

export interface Decided {
  history: History
  decision: Decision
}

/** Writes decisions, except ledger entries. Payments come before the refunds that refer to them. */
export async function writeDecided(tx: Transaction, decided: Decided[]): Promise<void> {
  const payments = decided.flatMap(({ decision }) =>
    decision.payments.map((payment) => ({
      ...payment,
      source_key:
        payment.invoice_ref === null
          ? `checkout:${payment.purchase_ref}`
          : `invoice:${payment.purchase_ref}:${payment.invoice_ref}`,
    })),
  )
  await insertRows(
    tx,
    'payments',
    payments,
    tx`on conflict (id) do update set ${tx.unsafe(assignments(changing.payments))}`,
  )
  const refunds = decided.flatMap(({ history: { session }, decision }) =>
    decision.refunds.map((refund) => ({ ...refund, ...ownerOf(session), merchant: session.merchant })),
  )
  const effects = decided.flatMap(({ history: { session }, decision }) =>
    decision.effects.map((effect) => ({ ...effect, ...ownerOf(session), purchase_ref: session.id })),
  )
  const questions = decided.flatMap(({ history: { session }, decision }) =>
    decision.questions.map((question) => ({
      ...question,
      purchase_ref: session.id,
      account_id: session.account_id,
      merchant: session.merchant,
    })),
  )
  await Promise.all([
    insertRows(
      tx,
      'refunds',
      refunds,
      tx`on conflict (id) do update set ${tx.unsafe(assignments(changing.refunds))}`,
    ),
    insertRows(tx, 'purchase_effects', effects, tx`on conflict (purchase_ref, effect_key) do nothing`),
    insertRows(tx, 'processor_questions', questions, tx`on conflict (purchase_ref, kind, ref) do nothing`),
    updateSessions(tx, decided),
    updatePurchases(tx, decided),
    noteDayChanges(tx, decided.flatMap(dayChangesOf)),
  ])
}

/** Columns of known rows that a decision changes. */
const changing = {
  payments: changingColumns,
  refunds: ['charge_ref', 'status', 'kind', 'occurred_at', 'alerted'],
} as const satisfies { payments: readonly (keyof PaymentRow)[]; refunds: readonly (keyof RefundRow)[] }

const assignments = (names: readonly string[]) => names.map((name) => `${name} = excluded.${name}`).join(', ')

function dayChangesOf({ history, decision }: Decided) {
  const after = {
    payments: written(history.payments, decision.payments, changing.payments),
    refunds: written(history.refunds, decision.refunds, changing.refunds),
    fees: [...history.ledger, ...decision.entries],
  }
  const changes = dayChanges({ ...history, fees: history.ledger }, after)
  return changes.map((change) => ({ ...change, ...ownerOf(history.session) }))
}

/** The known rows, as a decision changes them, and its new rows. */
function written<Row extends { id: string }>(
  known: readonly Row[],
  decided: readonly Row[],
  names: readonly (keyof Row)[],
): Row[] {
  const rows = new Map(known.map((row) => [row.id, row]))
  for (const row of decided) {
    const changed = Object.fromEntries(names.map((name) => [name, row[name]])) as Partial<Row>
    const before = rows.get(row.id)
    rows.set(row.id, before ? { ...before, ...changed } : row)
  }
  return [...rows.values()]
}

export function ownerOf({ account_id, application_id }: SoldSession) {
  return { account_id, application_id }
}

async function updateSessions(tx: Transaction, decided: Decided[]): Promise<void> {
  const rows = decided
    .filter(({ decision }) => Object.keys(decision.session).length > 0)
    .map(({ history, decision }) => ({ ...decision.session, id: history.session.id }))
  if (rows.length === 0) return
  await tx`
    update checkout_sessions s set status = coalesce(r.status, s.status),
      paid_at = coalesce(r.paid_at, s.paid_at),
      paid_amount = coalesce(r.paid_amount, s.paid_amount), paid_currency = coalesce(r.paid_currency, s.paid_currency),
      payment_ref = coalesce(r.payment_ref, s.payment_ref), invoice_ref = coalesce(r.invoice_ref, s.invoice_ref),
      subscription_ref = coalesce(r.subscription_ref, s.subscription_ref),
      paid_until = coalesce(r.paid_until, s.paid_until), renews = coalesce(r.renews, s.renews),
      has_ended = coalesce(r.has_ended, s.has_ended)
    from ${rowsOf(tx, 'checkout_sessions', rows)} r where s.id = r.id`
}

/** Sets when each purchase is decided again. If it has new effects, they are sent now. */
async function updatePurchases(tx: Transaction, decided: Decided[]): Promise<void> {
  const rows = decided.map(({ history, decision }) => ({
    purchase_ref: history.session.id,
    decide_at: decision.next ?? null,
    ordered_at: decision.effects.at(-1)?.ordered_at ?? null,
  }))
  const sending = decided
    .filter(({ decision }) => decision.effects.some((effect) => effect.state === 'waiting'))
    .map(({ history }) => history.session.id)
  await tx`
    update purchases p set decide_at = r.decide_at, attempts = 0, ordered_at = coalesce(r.ordered_at, p.ordered_at),
      send_at = case when p.purchase_ref = any(${sending}) then least(p.send_at, clock_timestamp())
        else p.send_at end
    from ${rowsOf(tx, 'purchases', rows)} r where p.purchase_ref = r.purchase_ref`
}

export async function postponeDecision(sql: Sql, purchaseRef: string, delayMs: number): Promise<void> {
  await sql`
    update purchases set attempts = attempts + 1,
      decide_at = clock_timestamp() + ${delayMs}::int * interval '1 millisecond'
    where purchase_ref = ${purchaseRef}`
}

export interface AnsweredQuestion extends Pick<DueQuestion, 'purchase_ref' | 'kind' | 'ref'> {
  /** Whether the processor has such an object; null without an answer. */
  found: boolean | null
  /** The pause before it is asked again, in milliseconds; null when it is answered. */
  pause_ms: number | null
}

export async function writeAnswer(
  tx: Transaction,
  { purchase_ref, kind, ref, found, pause_ms }: AnsweredQuestion,
): Promise<void> {
  await tx`
    update processor_questions set found = coalesce(${found}::boolean, found),
      next_at = clock_timestamp() + ${pause_ms}::int * interval '1 millisecond'
    where purchase_ref = ${purchase_ref} and kind = ${kind} and ref = ${ref}`
}
