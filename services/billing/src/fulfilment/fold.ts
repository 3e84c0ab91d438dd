import type { DisputeStatus, RefundStatus } from '@licensing/proto/closed-sets'
import type { ChargeFact, CheckoutFact, DisputeFact, Fact, RefundFact } from '../processors/facts.ts'
import type { RecordedFact } from './history.ts'

// Facts merged so that neither their order nor their repetition matters.

export interface Charge {
  ref: string
  amount: number
  currency: string
  chargedAt: number
  refunded: number
  /** When its total came to what it is, by the processor's clock. */
  refundedAt: number
}

export interface FoldedRefund {
  ref: string
  amount: number
  currency: string
  createdAt: number
  status: RefundStatus
  /** When it succeeded, whatever became of it; undefined where it never did. */
  succeededAt: number | undefined
  failedAt: number | undefined
  /** When we first heard of it. */
  recordedAt: number
  /** An event has reported all that it came to. */
  explained: boolean
  /** Inferred from the charge's total. */
  derived: boolean
}

export interface FoldedDispute {
  ref: string
  amount: number
  currency: string
  openedAt: number
  status: DisputeStatus
  inquiry: boolean
  inquiryClosedAt: number | undefined
  chargebackAt: number | undefined
  recordedAt: number
  explained: boolean
}

export interface Invoice {
  ref: string
  reason: 'first' | 'cycle' | 'proration'
  amount: number
  currency: string
  periodEnd: number | undefined
  priceRef: string | undefined
  paidAt: number
  recordedAt: number
}

export interface Checkout {
  state: CheckoutFact['state'] | undefined
  amount: number | undefined
  currency: string | undefined
  paidAt: number | undefined
  recordedAt: number
  paymentRef: string | undefined
  invoiceRef: string | undefined
  subscriptionRef: string | undefined
}

/** The facts of one kind. */
export function ofKind<Kind extends Fact['kind']>(
  facts: RecordedFact[],
  kind: Kind,
): (Extract<Fact, { kind: Kind }> & { recordedMs: number })[] {
  return facts.flatMap(({ fact, recordedAt }) =>
    fact.kind === kind
      ? [{ ...(fact as Extract<Fact, { kind: Kind }>), recordedMs: recordedAt.getTime() }]
      : [],
  )
}

const states: CheckoutFact['state'][] = ['unpaid', 'expired', 'failed', 'paid']

/** States only move up; the time of payment is the first that was reported. */
export function foldCheckout(facts: RecordedFact[], checkoutRef: string | null): Checkout {
  // One that was replaced by another expires.
  const all = ofKind(facts, 'checkout').filter(
    (fact) => fact.state !== 'expired' || fact.checkoutRef === checkoutRef,
  )
  const paid = all.filter((fact) => fact.state === 'paid').sort((a, b) => a.at - b.at)
  const subscription = facts.map(({ fact }) => fact.subscriptionRef).find((ref) => ref !== undefined)
  const [first] = paid
  return {
    state: all.map((fact) => fact.state).reduce<Checkout['state']>((a, b) => later(a, b), undefined),
    amount: first?.amount,
    currency: first?.currency,
    paidAt: first?.at,
    recordedAt: Math.min(...paid.map((fact) => fact.recordedMs)),
    paymentRef: last(all.map((fact) => fact.paymentRef)),
    invoiceRef: last(all.map((fact) => fact.invoiceRef)),
    subscriptionRef: last(all.map((fact) => fact.subscriptionRef)) ?? subscription,
  }
}

function later(a: Checkout['state'], b: CheckoutFact['state']): CheckoutFact['state'] {
  return a === undefined || states.indexOf(b) > states.indexOf(a) ? b : a
}

function last<Item>(items: (Item | undefined)[]): Item | undefined {
  return items.findLast((item) => item !== undefined)
}

/** The payment that each charge is of, as far as it is known. */
export function paymentsOfCharges(facts: RecordedFact[]): Map<string, string> {
  const found = new Map<string, string>()
  for (const { fact } of facts) {
    if (fact.chargeRef !== undefined && fact.paymentRef !== undefined)
      found.set(fact.chargeRef, fact.paymentRef)
  }
  return found
}

/** The charge of a payment, though nothing is known of it but what names it: a refund or a dispute does. */
export function chargeNamed(facts: RecordedFact[], paymentRef: string): string | undefined {
  return facts.find(({ fact }) => fact.chargeRef !== undefined && fact.paymentRef === paymentRef)?.fact
    .chargeRef
}

/** The charge that paid, the earliest of several; without its payment it stands for itself. */
export function foldCharge(
  facts: RecordedFact[],
  isOfPayment: (fact: ChargeFact) => boolean,
): Charge | undefined {
  const all = ofKind(facts, 'charge').filter(isOfPayment)
  const paying = all.toSorted((a, b) => b.chargedAt - a.chargedAt || (a.chargeRef < b.chargeRef ? 1 : -1))[0]
  if (!paying) return undefined
  const same = all.filter((fact) => fact.chargeRef === paying.chargeRef)
  const refunded = Math.max(...same.map((fact) => fact.refunded))
  return {
    ref: paying.chargeRef,
    amount: paying.amount,
    currency: paying.currency,
    chargedAt: paying.chargedAt,
    refunded,
    refundedAt: Math.min(...same.filter((fact) => fact.refunded === refunded).map((fact) => fact.reportedAt)),
  }
}

const final = new Set<RefundStatus>(['failed', 'canceled'])

export function foldRefunds(
  facts: RecordedFact[],
  isOfPayment: (fact: RefundFact) => boolean,
): FoldedRefund[] {
  const groups = Map.groupBy(ofKind(facts, 'refund').filter(isOfPayment), (fact) => fact.refundRef)
  return [...groups.values()].map((group) => {
    const [one] = group
    const ended = group.find((fact) => final.has(fact.status))
    const succeeded = group.filter((fact) => fact.status === 'succeeded' || fact.hadSucceeded)
    const reported = least(
      succeeded.filter((fact) => fact.status === 'succeeded').map((fact) => fact.reportedAt),
    )
    const failedAt = least(group.filter((fact) => final.has(fact.status)).map((fact) => fact.reportedAt))
    const status = ended?.status ?? (succeeded.length > 0 ? 'succeeded' : 'pending')
    return {
      ref: one!.refundRef,
      amount: one!.amount,
      currency: one!.currency,
      createdAt: one!.createdAt,
      status,
      succeededAt: succeeded.length > 0 ? (reported ?? one!.createdAt) : undefined,
      failedAt,
      recordedAt: Math.min(...group.map((fact) => fact.recordedMs)),
      explained:
        (succeeded.length === 0 || reported !== undefined) &&
        (status !== 'failed' || (failedAt !== undefined && succeeded.length > 0)),
      derived: false,
    }
  })
}

export function foldDisputes(
  facts: RecordedFact[],
  isOfPayment: (fact: DisputeFact) => boolean,
): FoldedDispute[] {
  const groups = Map.groupBy(ofKind(facts, 'dispute').filter(isOfPayment), (fact) => fact.disputeRef)
  return [...groups.values()].map((group) => {
    const [one] = group
    const at = (stage: DisputeFact['stage']) => {
      const passed = group.filter((fact) => fact.stage === stage)
      return { passed: passed.length > 0, reported: least(passed.map((fact) => fact.reportedAt)) }
    }
    const closed = at('inquiry_closed')
    const chargeback = at('chargeback')
    return {
      ref: one!.disputeRef,
      amount: one!.amount,
      currency: one!.currency,
      openedAt: one!.openedAt,
      status: group.map((fact) => fact.status).find((status) => status !== 'open') ?? 'open',
      inquiry: group.some((fact) => fact.stage !== 'chargeback' || fact.wasInquiry),
      inquiryClosedAt: closed.passed ? (closed.reported ?? one!.openedAt) : undefined,
      chargebackAt: chargeback.passed ? (chargeback.reported ?? one!.openedAt) : undefined,
      recordedAt: Math.min(...group.map((fact) => fact.recordedMs)),
      explained:
        group.some((fact) => fact.opening) &&
        (!chargeback.passed || chargeback.reported !== undefined) &&
        (!closed.passed || closed.reported !== undefined),
    }
  })
}

/** Paid invoices in the order in which they were paid. */
export function foldInvoices(facts: RecordedFact[], firstRef: string | undefined): Invoice[] {
  const groups = Map.groupBy(ofKind(facts, 'invoice_paid'), (fact) => fact.invoiceRef)
  return [...groups.values()]
    .map((group) => {
      const [one] = group
      const isFirst = group.some((fact) => fact.reason === 'first') || one!.invoiceRef === firstRef
      const ends = group.map((fact) => fact.periodEnd).filter((end) => end !== undefined)
      return {
        ref: one!.invoiceRef,
        reason: isFirst ? ('first' as const) : one!.reason,
        amount: one!.amount,
        currency: one!.currency,
        periodEnd: ends.length > 0 ? Math.max(...ends) : undefined,
        priceRef: group.map((fact) => fact.priceRef).find((ref) => ref !== undefined),
        paidAt: Math.min(...group.map((fact) => fact.paidAt)),
        recordedAt: Math.min(...group.map((fact) => fact.recordedMs)),
      }
    })
    .sort((a, b) => a.paidAt - b.paidAt || (a.ref < b.ref ? -1 : 1))
}

/**
 * Failed payments of the subscription in a row, where they come to `most`: since the last invoice that was paid, each
 * invoice counts as often as it was tried. A repeated event, or a try by hand, repeats a count and adds nothing; a
 * higher count shows those between that were missed.
 *
 * @returns the invoice by which it came to `most`, which names the streak, and when it did
 */
export function failureStreak(
  facts: RecordedFact[],
  invoices: Invoice[],
  most: number,
): { invoiceRef: string; at: number } | undefined {
  const since = invoices.at(-1)?.paidAt ?? 0
  const paid = new Set(invoices.map((invoice) => invoice.ref))
  const before = new Map<string, number>()
  const counted = new Map<string, number>()
  const failures = ofKind(facts, 'invoice_failed').sort(
    (a, b) =>
      a.at - b.at ||
      (a.invoiceRef < b.invoiceRef ? -1 : a.invoiceRef > b.invoiceRef ? 1 : a.attempt - b.attempt),
  )
  for (const { invoiceRef, attempt, at } of failures) {
    if (paid.has(invoiceRef)) continue
    const times = at < since ? before : counted
    times.set(invoiceRef, Math.max(times.get(invoiceRef) ?? 0, attempt))
    if (inARow(counted, before) >= most) return { invoiceRef, at }
  }
  return undefined
}

function inARow(counted: Map<string, number>, before: Map<string, number>): number {
  let total = 0
  for (const [invoice, attempt] of counted) total += Math.max(0, attempt - (before.get(invoice) ?? 0))
  return total
}

function least(times: (number | undefined)[]): number | undefined {
  const known = times.filter((time) => time !== undefined)
  return known.length > 0 ? Math.min(...known) : undefined
}
