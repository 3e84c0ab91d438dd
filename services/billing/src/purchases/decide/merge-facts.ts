import type { RefundStatus } from '@licensing/proto/closed-sets'
import type { CheckoutFact, DisputeFact, Fact, Links } from '../../processor/facts.ts'
import type { PurchasedItem } from './purchased-item.ts'

// Merges facts so that neither their order nor a repetition matters.

export interface RecordedFact {
  fact: Fact
  recorded_at: Date
}

/** A fact with the time at which it was recorded first. */
type Known<Kind extends Fact['kind']> = Extract<Fact, { kind: Kind }> & { recordedMs: number }

export type Charge = Known<'charge'>

/** An invoice with the line that is for the purchase. */
export interface Invoice extends Known<'invoice_paid'> {
  /** Whether it is known which line, if any, is for the purchase. */
  isRead: boolean
  periodEnd: number | undefined
  /** The price at which the purchase renews. */
  priceRef: string | undefined
}

export interface Checkout extends Links {
  state: CheckoutFact['state'] | undefined
  amount: number | undefined
  currency: string | undefined
  paidAt: number | undefined
  recordedMs: number
}

export interface MergedRefund extends Pick<
  Known<'refund'>,
  'chargeRef' | 'amount' | 'currency' | 'createdAt' | 'status' | 'recordedMs'
> {
  ref: string
  /** When it succeeded, even if it failed later; undefined if it never did. */
  succeededAt: number | undefined
  failedAt: number | undefined
  /** Whether events have reported each status that it had. */
  isFullyReported: boolean
}

export interface MergedDispute extends Pick<
  Known<'dispute'>,
  'chargeRef' | 'amount' | 'currency' | 'openedAt' | 'status' | 'recordedMs'
> {
  ref: string
  inquiry: boolean
  inquiryClosedAt: number | undefined
  chargebackAt: number | undefined
  isFullyReported: boolean
}

/**
 * A function of the facts of a purchase whose value is kept for them: it is needed for each payment, and a purchase can have
 * hundreds. The facts must not change.
 */
function keptFor<Value>(compute: (facts: readonly RecordedFact[]) => Value) {
  const values = new WeakMap<readonly RecordedFact[], Value>()
  return (facts: readonly RecordedFact[]): Value => {
    const kept = values.get(facts) ?? compute(facts)
    values.set(facts, kept)
    return kept
  }
}

const byKind = keptFor((facts) =>
  Map.groupBy(
    facts.map(({ fact, recorded_at: recordedAt }) => ({ ...fact, recordedMs: recordedAt.getTime() })),
    ({ kind }) => kind,
  ),
)

/** The facts of one kind. */
export function ofKind<Kind extends Fact['kind']>(
  facts: readonly RecordedFact[],
  kind: Kind,
): readonly Known<Kind>[] {
  return (byKind(facts).get(kind) ?? []) as unknown as Known<Kind>[]
}

/** Sorts by the first of these keys that differs. */
export function sortedBy<Item>(items: readonly Item[], ...keys: (keyof Item)[]): Item[] {
  return items.toSorted((a, b) => {
    const key = keys.find((each) => a[each] !== b[each])
    return key === undefined ? 0 : a[key] < b[key] ? -1 : 1
  })
}

const states: CheckoutFact['state'][] = ['unpaid', 'expired', 'failed', 'paid']

/**
 * The highest state counts, and the earliest time of payment. If the payment was delayed, the checkout was not paid when it
 * was completed, although a later reading of it says so.
 */
export function mergeCheckout(facts: RecordedFact[], checkoutRef: string | null): Checkout {
  // A checkout that was replaced by another one expires.
  const all = ofKind(facts, 'checkout').filter(
    (fact) => fact.state !== 'expired' || fact.checkoutRef === checkoutRef,
  )
  const paid = all.filter((fact) => fact.state === 'paid')
  const delayed = paid.filter((fact) => fact.wasDelayed)
  const [first] = sortedBy(delayed.length > 0 ? delayed : paid, 'at')
  return {
    state: states.findLast((state) => all.some((fact) => fact.state === state)),
    amount: first?.amount,
    currency: first?.currency,
    paidAt: first?.at,
    recordedMs: firstRecorded(paid),
    paymentRef: known(all, (fact) => fact.paymentRef).at(-1),
    invoiceRef: known(all, (fact) => fact.invoiceRef).at(-1),
    subscriptionRef:
      known(all, (fact) => fact.subscriptionRef).at(-1) ??
      known(facts, ({ fact }) => fact.subscriptionRef).at(0),
  }
}

/**
 * Finds the payment of an object by its own reference or by that of its charge. A charge without a payment counts as
 * the payment.
 */
const paymentNamed = keptFor((facts) => {
  const payments = new Map(
    facts.flatMap(({ fact: { chargeRef, paymentRef } }) =>
      chargeRef !== undefined && paymentRef !== undefined ? [[chargeRef, paymentRef]] : [],
    ),
  )
  return ({ paymentRef, chargeRef }: Links) => paymentRef ?? payments.get(chargeRef ?? '') ?? chargeRef
})

const refundsByPayment = keptFor((facts) => Map.groupBy(ofKind(facts, 'refund'), paymentNamed(facts)))
const disputesByPayment = keptFor((facts) => Map.groupBy(ofKind(facts, 'dispute'), paymentNamed(facts)))
const chargesNamed = keptFor((facts) =>
  Map.groupBy(
    facts.filter(({ fact }) => fact.chargeRef !== undefined),
    ({ fact }) => fact.paymentRef,
  ),
)

/** Finds the charge of a payment by a refund or a dispute that contains both ids, if no other fact contains them. */
export function chargeNamed(facts: readonly RecordedFact[], paymentRef: string): string | undefined {
  return chargesNamed(facts).get(paymentRef)?.[0]?.fact.chargeRef
}

/** The charge that paid, the latest of several. */
export function mergeCharge(facts: RecordedFact[], paymentRef: string): Charge | undefined {
  const paymentOf = paymentNamed(facts)
  const all = ofKind(facts, 'charge').filter(
    (fact) => paymentOf(fact) === paymentRef || fact.chargeRef === paymentRef,
  )
  const paying = sortedBy(all, 'chargedAt', 'chargeRef').at(-1)
  const same = all.filter((fact) => fact.chargeRef === paying?.chargeRef)
  return paying && { ...paying, refunded: Math.max(...same.map((fact) => fact.refunded)) }
}

const ended = new Set<RefundStatus>(['failed', 'canceled'])

export function mergeRefunds(facts: RecordedFact[], paymentRef: string): MergedRefund[] {
  const all = refundsByPayment(facts).get(paymentRef) ?? []
  return groupsBy(all, (fact) => fact.refundRef).map((group) => {
    const [{ refundRef, amount, currency, createdAt }] = group
    const end = group.filter((fact) => ended.has(fact.status))
    const succeeded = group.filter((fact) => fact.status === 'succeeded' || fact.hadSucceeded)
    const reported = firstReported(succeeded.filter((fact) => fact.status === 'succeeded'))
    const failedAt = firstReported(end)
    const hasSucceeded = succeeded.length > 0
    const status = end[0]?.status ?? (hasSucceeded ? 'succeeded' : 'pending')
    return {
      ref: refundRef,
      chargeRef: known(group, (fact) => fact.chargeRef).at(0),
      amount,
      currency,
      createdAt,
      status,
      succeededAt: hasSucceeded ? (reported ?? createdAt) : undefined,
      failedAt,
      recordedMs: lastRecorded(group),
      isFullyReported:
        (!hasSucceeded || reported !== undefined) &&
        (status !== 'failed' || (hasSucceeded && failedAt !== undefined)),
    }
  })
}

export function mergeDisputes(facts: RecordedFact[], paymentRef: string): MergedDispute[] {
  const all = disputesByPayment(facts).get(paymentRef) ?? []
  const disputes = groupsBy(all, (fact) => fact.disputeRef).map((group): MergedDispute => {
    const [{ disputeRef, amount, currency, openedAt }] = group
    const at = (stage: DisputeFact['stage']) => {
      const passed = group.filter((fact) => fact.stage === stage)
      const reported = firstReported(passed)
      const isKnown = passed.length === 0 || reported !== undefined
      return { at: passed.length > 0 ? (reported ?? openedAt) : undefined, isKnown }
    }
    const closed = at('inquiry_closed')
    const chargeback = at('chargeback')
    return {
      ref: disputeRef,
      chargeRef: known(group, (fact) => fact.chargeRef).at(0),
      amount,
      currency,
      openedAt,
      status: group.map((fact) => fact.status).find((status) => status !== 'open') ?? 'open',
      inquiry: group.some((fact) => fact.stage !== 'chargeback' || fact.wasInquiry),
      inquiryClosedAt: closed.at,
      chargebackAt: chargeback.at,
      recordedMs: lastRecorded(group),
      isFullyReported: group.some((fact) => fact.opening) && chargeback.isKnown && closed.isKnown,
    }
  })
  return sortedBy(disputes, 'openedAt', 'ref')
}

/**
 * Paid invoices in the order in which they were paid.
 *
 * @param item follows the item that the purchase is for
 */
export function mergeInvoices(
  facts: RecordedFact[],
  firstRef: string | undefined,
  item: PurchasedItem,
): Invoice[] {
  const invoices = groupsBy(ofKind(facts, 'invoice_paid'), (fact) => fact.invoiceRef).map((group) => {
    const [one] = group
    const isFirst = group.some((fact) => fact.reason === 'first') || one.invoiceRef === firstRef
    return {
      ...one,
      reason: isFirst ? ('first' as const) : one.reason,
      lines: known(group, (fact) => fact.lines).at(0),
      items: known(group, (fact) => fact.items).at(0),
      paidAt: Math.min(...group.map((fact) => fact.paidAt)),
      recordedMs: firstRecorded(group),
    }
  })
  return sortedBy(invoices, 'paidAt', 'invoiceRef').map((invoice) => {
    const line = item.next(invoice)
    return {
      ...invoice,
      // An invoice only for other items is no cycle of the purchase.
      reason: line === null && invoice.reason === 'cycle' ? ('proration' as const) : invoice.reason,
      isRead: line !== undefined,
      periodEnd: line?.periodEnd,
      priceRef: line?.priceRef,
    }
  })
}

/**
 * Finds the streak of failed payments that reached `max` since the last paid invoice. Each invoice counts as often as
 * it was tried. A repeated event or a manual attempt repeats a count and adds nothing. If a count is missing, the next
 * higher one includes it.
 *
 * @returns the invoice with which the streak reached `max`, which names the streak, and when; `since`: its first failure
 */
export function failureStreak(
  facts: RecordedFact[],
  invoices: Invoice[],
  max: number,
): { invoiceRef: string; cause: string; at: number; since: number } | undefined {
  const since = invoices.at(-1)?.paidAt ?? 0
  const paid = new Set(invoices.map((invoice) => invoice.invoiceRef))
  const before = new Map<string, number>()
  const counted = new Map<string, number>()
  let begun: number | undefined
  const failures = sortedBy(ofKind(facts, 'invoice_failed'), 'at', 'invoiceRef', 'attempt')
  for (const { invoiceRef, failureRef, attempt, at } of failures) {
    if (paid.has(invoiceRef)) continue
    const times = at < since ? before : counted
    times.set(invoiceRef, Math.max(times.get(invoiceRef) ?? 0, attempt))
    if (at >= since) begun ??= at
    if (inARow(counted, before) >= max) {
      return { invoiceRef, cause: failureRef ?? invoiceRef, at, since: begun ?? at }
    }
  }
  return undefined
}

function inARow(counted: Map<string, number>, before: Map<string, number>): number {
  let total = 0
  for (const [invoice, attempt] of counted) total += Math.max(0, attempt - (before.get(invoice) ?? 0))
  return total
}

function groupsBy<Item>(items: readonly Item[], key: (item: Item) => string): [Item, ...Item[]][] {
  return [...Map.groupBy(items, key).values()] as [Item, ...Item[]][]
}

function known<Item, Value>(items: readonly Item[], value: (item: Item) => Value | undefined): Value[] {
  return items.map(value).filter((each) => each !== undefined)
}

function firstRecorded(facts: { recordedMs: number }[]): number {
  return Math.min(...facts.map((fact) => fact.recordedMs))
}

function lastRecorded(facts: { recordedMs: number }[]): number {
  return Math.max(...facts.map((fact) => fact.recordedMs))
}

function firstReported(facts: { reportedAt: number | undefined }[]): number | undefined {
  const times = known(facts, (fact) => fact.reportedAt)
  return times.length > 0 ? Math.min(...times) : undefined
}
