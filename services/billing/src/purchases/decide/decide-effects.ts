import { purchaseEnd } from '@licensing/proto/closed-sets'
import { addMonths, updatesPaid } from '../../calendar.ts'
import type { PaymentRow } from '../../payments/payment-queries.ts'
import type { SubscriptionItem } from '../../processor/facts.ts'
import { refundEffect } from './decide-refunds.ts'
import type { PaymentWithRefunds } from './decide-refunds.ts'
import { ask, hasPassed } from './decision.ts'
import type { History, MappedPrice, NewEffect, Subject } from './decision.ts'
import { failureStreak, ofKind } from './merge-facts.ts'
import type { Invoice } from './merge-facts.ts'
import { PurchasedItem } from './purchased-item.ts'
import { renewalOf } from './scheduled-end.ts'
import { timing } from '../../timing.ts'

/** Decides the effects that are sent to licensing, in the order of the processor's clock. */
export function decideEffects(subject: Subject, payments: PaymentWithRefunds[]): void {
  const { history, decision } = subject
  const { session, effects: known } = history
  const main = payments[0]!.payment
  const orderedAt = main.charged_at ?? main.paid_at
  const first = known.has('paid')
    ? orderCorrectedEffect(history, orderedAt)
    : paidEffect(subject, main, orderedAt)
  if (!first && !known.has('paid')) return
  const incomplete = new Set<DraftEffect>()
  const refunds = payments.flatMap((each) => {
    const own = refundEffects(subject, each)
    if (!each.isComplete) for (const newEffect of own) incomplete.add(newEffect)
    return own
  })
  const later = [
    ...renewalEffects(subject),
    ...failureEffects(subject),
    ...refunds,
    ...renewalChangeEffects(subject),
    ...endEffects(subject),
  ]
    .filter((newEffect) => !known.has(newEffect.effect_key))
    // The sort is stable: effects of the same time stay in this order, because a later one can depend on an earlier one.
    .sort((a, b) => a.at.getTime() - b.at.getTime())
  // An effect that waits stops later effects. Otherwise the events about a refund and an end would depend on which arrives first.
  const waits = (newEffect: DraftEffect) =>
    incomplete.has(newEffect) || (waitsForOthers(newEffect) && !areOthersKnown(subject, newEffect))
  const firstWaiting = later.findIndex(waits)
  if (firstWaiting >= 0) later.splice(firstWaiting)
  decision.effects = [...(first ? [first] : []), ...later].map((newEffect) => ({
    ...newEffect,
    ordered_at: orderedAt,
    state: session.status === 'provision_failed' ? 'refused' : 'waiting',
  }))
}

const waitsForOthers = ({ kind }: DraftEffect) => kind !== null && purchaseEnd[kind] !== null

type DraftEffect = Omit<NewEffect, 'ordered_at' | 'state'>

function newEffect(
  kind: NewEffect['kind'],
  effectKey: string,
  cause: string,
  atMs: number,
  fields: Partial<DraftEffect> = {},
): DraftEffect {
  return {
    effect_key: effectKey,
    kind,
    cause,
    at: new Date(atMs),
    plan_id: null,
    external_ref: null,
    ends_at: null,
    updates_until: null,
    metadata: null,
    renews: false,
    refund_id: null,
    ...fields,
  }
}

/** Corrects the time of the first charge if it differs from the time that licensing was last sent. */
function orderCorrectedEffect(
  { orderedAt: before, session, effects }: History,
  orderedAt: Date,
): DraftEffect | undefined {
  const at = orderedAt.getTime()
  if (!before || before.getTime() === at) return undefined
  // Licensing applies each cause once.
  const earlier = [...effects].filter((key) => key.startsWith('order_corrected:')).length
  const cause = earlier === 0 ? session.id : `${session.id}:${earlier}`
  return newEffect('order_corrected', `order_corrected:${at}:${earlier}`, cause, at)
}

function paidEffect(subject: Subject, main: PaymentRow, orderedAt: Date): DraftEffect | undefined {
  const { history, checkout, paidAt } = subject
  const { id, plan_id, external_ref, metadata, mode, updates_months } = history.session
  const waitsUntil = checkout.recordedMs + timing.chargeBeforePaid
  if (main.charge_state === 'pending' && !hasPassed(subject, waitsUntil)) return undefined
  const ends_at = endOfFirst(subject)
  if (ends_at === 'unknown') return undefined
  const at = Math.max(paidAt, orderedAt.getTime())
  const updates_until = updatesPaid(updates_months, new Date(paidAt))
  const sold = { plan_id, external_ref, ends_at, updates_until, metadata, renews: mode === 'subscription' }
  return newEffect('paid', 'paid', id, at, sold)
}

/** A subscription is not sent before the end of its period is known: without it the licence would never end. */
function endOfFirst(subject: Subject): Date | null | 'unknown' {
  const { history, invoices, checkout, paidAt, rules } = subject
  const { session } = history
  if (session.mode === 'payment') {
    return session.period_months === null ? null : addMonths(new Date(paidAt), session.period_months)
  }
  const first = invoices.find((invoice) => invoice.reason === 'first')
  const reported = first?.periodEnd ?? soldItemOf(subject)?.periodEnd
  if (reported !== undefined) return new Date(reported + rules.graceMs)
  const invoiceRef = checkout.invoiceRef ?? session.invoice_ref
  const subscriptionRef = checkout.subscriptionRef ?? session.subscription_ref
  // The first invoice is asked for, because the subscription may have entered a later period that is not paid.
  const asksInvoice =
    !first && invoiceRef !== null && ask(subject, 'invoice', invoiceRef, checkout.recordedMs).waiting
  if (!asksInvoice && subscriptionRef) ask(subject, 'subscription', subscriptionRef, checkout.recordedMs)
  return 'unknown'
}

// The processor's clock counts in seconds. Effects of one second are ordered by the paid cycle that they belong to, so that a
// refund of one cycle comes before the payment of the next: each cycle adds a millisecond. The end comes last.
const maxCycles = 998
const endOfSecond = 999

/** The number of paid cycles up to this invoice. Null means the first invoice, which the checkout pays. */
function countCycles({ invoices }: Subject, invoice: Invoice | null): number {
  const earlier = invoices.filter((each) => {
    if (invoice === null || each.reason !== 'cycle') return false
    return invoice.reason === 'cycle' ? endOf(each) <= endOf(invoice) : each.paidAt <= invoice.paidAt
  })
  return Math.min(earlier.length, maxCycles)
}

const endOf = ({ periodEnd, paidAt }: Invoice) => periodEnd ?? paidAt

function soldItemOf({ history: { facts, session, prices } }: Subject): SubscriptionItem | undefined {
  const [subscription] = ofKind(facts, 'subscription')
  return subscription && new PurchasedItem(session.price_id, prices).soldAmong(subscription.items)
}

/**
 * Each invoice after the first moves the end, and the plan follows the price. If it is not known which line of the invoice
 * is for the purchase, the renewal waits for the processor's answer, however long that takes.
 */
function renewalEffects(subject: Subject): DraftEffect[] {
  const { invoices, rules } = subject
  return invoices.flatMap((invoice) => {
    const { invoiceRef, reason, isRead, periodEnd, priceRef, recordedMs } = invoice
    if (reason === 'first') return []
    if (!isRead) ask(subject, 'invoice', invoiceRef, recordedMs)
    if (periodEnd === undefined) return []
    const ends_at = new Date(periodEnd + rules.graceMs)
    const { plan_id = null, updates_months } = termsAt(subject, priceRef)
    const updates_until = updatesPaid(updates_months, new Date(invoice.paidAt))
    const at = invoice.paidAt + countCycles(subject, invoice)
    return [
      newEffect('renewed', `renewed:${invoiceRef}`, invoiceRef, at, { ends_at, plan_id, updates_until }),
    ]
  })
}

/**
 * The plan and the months of updates of a renewal at this price. A plan that is no longer sold has no price, but its customers
 * still renew at the price that their checkout sold.
 */
function termsAt(
  { history: { prices, session } }: Subject,
  priceRef: string | undefined,
): Partial<MappedPrice> {
  const mapped = prices.get(priceRef ?? '')
  return mapped ?? (priceRef === session.price_id ? { updates_months: session.updates_months } : {})
}

/** Tells licensing whether the subscription will be charged again, if that changed. */
function renewalChangeEffects(subject: Subject): DraftEffect[] {
  const { history, checkout } = subject
  const renewal = renewalOf(subject)
  if (!renewal) return []
  const kind = renewal.renews ? 'renewal_resumed' : 'renewal_stopped'
  const sent = [...history.effects].findLast((key) => key.startsWith('renewal_')) ?? 'renewal_resumed'
  if (sent.startsWith(kind)) return []
  const { at } = renewal
  return [newEffect(kind, `${kind}:${at}`, `${checkout.subscriptionRef ?? history.session.id}:${at}`, at)]
}

function failureEffects(subject: Subject): DraftEffect[] {
  const { history, invoices, rules } = subject
  const streak = failureStreak(history.facts, invoices, rules.failuresBeforeSuspend)
  if (!streak) return []
  const at = streak.at + countCycles(subject, invoices.at(-1) ?? null)
  return [newEffect('payment_failed', `payment_failed:${streak.invoiceRef}`, streak.invoiceRef, at)]
}

/**
 * A revocation is permanent, so it waits for events that may prevent it, such as another purchase of the customer. The end of a
 * subscription waits for earlier failures and renewals, so that the vendor gets their events first. After the end, a failure
 * suspends nothing: an expired licence is not suspended. Both wait for `othersArrive`, and until billing has read the events
 * that the processor lists and that did not arrive. If the processor does not answer, they wait until `lookAtEvents`.
 */
function areOthersKnown(subject: Subject, { cause }: DraftEffect): boolean {
  const knownMs = Math.max(...subject.history.facts.map((fact) => fact.recorded_at.getTime()))
  const { waiting } = ask(subject, 'events', cause, knownMs)
  const haveArrived = hasPassed(subject, knownMs + timing.othersArrive)
  return haveArrived && (!waiting || hasPassed(subject, knownMs + timing.lookAtEvents))
}

/** Refunds, chargebacks and inquiries of one payment. */
function refundEffects(subject: Subject, paidBy: PaymentWithRefunds): DraftEffect[] {
  const { refunds, lanes, disputes } = paidBy
  const cycle = countCycles(subject, paidBy.invoice)
  const inquiries = disputes
    .filter((dispute) => dispute.inquiry && paysForCurrentCycle(subject, paidBy, dispute.openedAt))
    .map((each) => newEffect('inquiry_opened', inquiryOpened(each), each.ref, each.openedAt + cycle))
  // The closing of an inquiry that changed no licence must not end another inquiry.
  const opened = new Set([...subject.history.effects, ...inquiries.map((each) => each.effect_key)])
  const refunded = refunds.map((refund) => {
    const { id, ref } = refund
    const { lane, at } = lanes.get(id)!
    const kind = lane === 'full_refund' ? 'refunded' : 'partially_refunded'
    const isCurrent = paysForCurrentCycle(subject, paidBy, at)
    return newEffect(isCurrent ? kind : null, refundEffect(id), ref, at + cycle, { refund_id: id })
  })
  const chargedBack = disputes.flatMap(({ id, ref, chargebackAt }) => {
    if (id === undefined || chargebackAt === undefined) return []
    const kind = paysForCurrentCycle(subject, paidBy, chargebackAt) ? 'charged_back' : null
    return [newEffect(kind, refundEffect(id), ref, chargebackAt + cycle, { refund_id: id })]
  })
  const closed = disputes.flatMap((dispute) => {
    const { ref, inquiryClosedAt: at } = dispute
    if (at === undefined || !opened.has(inquiryOpened(dispute))) return []
    return [newEffect('inquiry_closed', `inquiry_closed:${ref}`, ref, at + cycle)]
  })
  const processed = new Set(subject.history.refunds.filter((row) => row.processed).map((row) => row.id))
  return [...inquiries, ...refunded, ...chargedBack, ...closed].filter(
    ({ refund_id: id }) => id === null || !processed.has(id),
  )
}

const inquiryOpened = ({ ref }: { ref: string }) => `inquiry_opened:${ref}`

/** Whether this payment paid for the purchase's current cycle at that time. A proration never does. */
function paysForCurrentCycle({ invoices }: Subject, { invoice }: PaymentWithRefunds, at: number): boolean {
  if (invoice?.reason === 'proration') return false
  return !invoices.some(
    (other) =>
      other.reason === 'cycle' && other.paidAt <= at && (invoice === null || endOf(other) > endOf(invoice)),
  )
}

function endEffects(subject: Subject): DraftEffect[] {
  const { history, checkout } = subject
  const [ended] = ofKind(history.facts, 'subscription_ended')
  if (!ended || history.effects.has('canceled')) return []
  const { subscriptionRef, endedAt } = ended
  const at = endedAt + endOfSecond
  return [newEffect('canceled', 'canceled', checkout.subscriptionRef ?? subscriptionRef, at)]
}
