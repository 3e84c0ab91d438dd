import type {
  ChargeFact,
  CheckoutFact,
  DisputeFact,
  Fact,
  InvoicePaidFact,
  RefundFact,
} from '../src/processor/facts.ts'
import { decide } from '../src/purchases/decide/decide.ts'
import type { Decision, History, SoldSession } from '../src/purchases/decide/decision.ts'
import type { RecordedFact } from '../src/purchases/decide/merge-facts.ts'
import { maxUnanswered, timing } from '../src/timing.ts'

export const second = 1_000
export const day = 24 * 3_600 * second
/** Within this time all known facts take effect. */
export const longEnough = timing.othersArrive + timing.lookAtEvents
/** When everything begins, by the processor's clock. */
export const start = Date.UTC(2026, 9, 10, 12)

/** The rules for facts of the processor. */
export const rules = {
  failuresBeforeSuspend: 3,
  graceMs: 14 * day,
  tickMs: second,
  othersArriveMs: timing.othersArrive,
  hasAnswers: true,
}

export function givenHistory(session: Partial<SoldSession> = {}): History {
  return {
    session: {
      id: 'cs_1',
      account_id: 'acct_1',
      application_id: 'app_1',
      plan_id: 'pln_1',
      external_ref: 'cust-1',
      price_id: 'price_1',
      mode: 'payment',
      period_months: null,
      updates_months: null,
      amount: 4900n,
      currency: 'usd',
      fee_minor: 245n,
      fee_bps: 500,
      fee_fixed_minor: 0n,
      metadata: {},
      status: 'open',
      licence_id: null,
      failure_reason: null,
      merchant: 'stripe:acct_1',
      checkout_ref: 'cs_test_1',
      url: '',
      paid_amount: null,
      paid_currency: null,
      paid_at: null,
      payment_ref: null,
      invoice_ref: null,
      subscription_ref: null,
      paid_until: null,
      renews: null,
      has_ended: null,
      created_at: new Date(start - 60 * second),
      sale_id: null,
      ...session,
    },
    facts: [],
    payments: [],
    refunds: [],
    ledger: [],
    effects: new Set(),
    questions: [],
    prices: new Map(),
    orderedAt: undefined,
  }
}

export const paid: CheckoutFact = {
  kind: 'checkout',
  checkoutRef: 'cs_test_1',
  sessionId: 'cs_1',
  state: 'paid',
  amount: 4900,
  currency: 'usd',
  paymentRef: 'pi_1',
  at: start,
}

export const charged: ChargeFact = {
  kind: 'charge',
  chargeRef: 'ch_1',
  paymentRef: 'pi_1',
  amount: 4900,
  currency: 'usd',
  chargedAt: start,
  refunded: 0,
  reportedAt: start,
}

export function refund(refundRef: string, at: number, change: Partial<RefundFact> = {}): RefundFact {
  return {
    kind: 'refund',
    refundRef,
    chargeRef: 'ch_1',
    paymentRef: 'pi_1',
    amount: 4900,
    currency: 'usd',
    createdAt: at,
    status: 'succeeded',
    hadSucceeded: false,
    reportedAt: at,
    ...change,
  }
}

/** A refund that had succeeded and failed later. */
export function failure(refundRef: string, createdAt: number, at: number): RefundFact {
  return refund(refundRef, createdAt, { status: 'failed', hadSucceeded: true, reportedAt: at })
}

export function dispute(disputeRef: string, at: number, change: Partial<DisputeFact> = {}): DisputeFact {
  return {
    kind: 'dispute',
    disputeRef,
    chargeRef: 'ch_1',
    paymentRef: 'pi_1',
    amount: 4900,
    currency: 'usd',
    openedAt: at,
    stage: 'chargeback',
    status: 'open',
    wasInquiry: false,
    opening: true,
    reportedAt: at,
    ...change,
  }
}

export function invoice(
  invoiceRef: string,
  at: number,
  {
    periodEnd = at + 30 * day,
    priceRef = 'price_1',
    ...change
  }: Partial<InvoicePaidFact> & { periodEnd?: number; priceRef?: string } = {},
): InvoicePaidFact {
  return {
    kind: 'invoice_paid',
    invoiceRef,
    subscriptionRef: 'sub_1',
    reason: 'cycle',
    amount: 4900,
    currency: 'usd',
    lines: [{ itemRef: 'si_1', priceRef, periodEnd }],
    paidAt: at,
    ...change,
  }
}

export function recorded(fact: Fact, atMs: number): RecordedFact {
  return { fact, recorded_at: new Date(atMs) }
}

/** The history after a decision, as the database would contain it. */
export function after(history: History, decision: Decision): History {
  const payments = new Map(history.payments.map((payment) => [payment.id, payment]))
  for (const payment of decision.payments) payments.set(payment.id, payment)
  const refunds = new Map(history.refunds.map((row) => [row.id, row]))
  for (const row of decision.refunds) refunds.set(row.id, row)
  return {
    ...history,
    session: { ...history.session, ...decision.session },
    payments: [...payments.values()],
    refunds: [...refunds.values()],
    ledger: [...history.ledger, ...decision.entries],
    effects: new Set([...history.effects, ...decision.effects.map((effect) => effect.effect_key)]),
    orderedAt: decision.effects.at(-1)?.ordered_at ?? history.orderedAt,
  }
}

export interface Recorded {
  history: History
  decisions: Decision[]
}

/** Records facts one after the other, each long after the one before, or all at once. */
export function record(history: History, facts: Fact[], options: { together?: boolean } = {}): Recorded {
  const decisions: Decision[] = []
  let known = history
  let clock = start + 100 * day
  const look = () => {
    const decision = decide(known, new Date(clock), rules)
    decisions.push(decision)
    known = after(known, decision)
    // The processor's records are unavailable.
    const asked = decision.questions.filter(({ kind }) => kind === 'records')
    const unanswered = asked.map(({ kind, ref }) => ({ kind, ref, attempts: maxUnanswered, found: null }))
    known = { ...known, questions: [...known.questions, ...unanswered] }
  }
  for (const fact of facts) {
    known = { ...known, facts: [...known.facts, recorded(fact, clock)] }
    if (options.together) continue
    clock += longEnough
    look()
    look()
  }
  clock += longEnough
  look()
  look()
  return { history: known, decisions }
}

/** Kinds and causes of the ledger's entries, as a set. */
export function ledgerOf({ history }: Recorded): string[] {
  return history.ledger.map((entry) => `${entry.kind} ${entry.amount_minor} ${entry.cause}`.trim()).sort()
}

/** Kinds of the effects, in their order. */
export function effectsOf({ decisions }: Recorded): string[] {
  return decisions.flatMap((decision) =>
    decision.effects.map((effect) =>
      `${effect.kind ?? 'nothing'} ${effect.kind === 'paid' ? '' : effect.cause}`.trim(),
    ),
  )
}

export function permutations<Item>(items: Item[]): Item[][] {
  if (items.length <= 1) return [items]
  return items.flatMap((item, at) => permutations(items.toSpliced(at, 1)).map((rest) => [item, ...rest]))
}
