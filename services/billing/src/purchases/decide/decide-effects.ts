import { addMonths, updatesPaid } from '../../calendar.ts'
import { effectMeanings, isEnd, isRevocation } from '../../effects/effect.ts'
import type { NewEffect } from '../../effects/effect.ts'
import type { PaymentRow } from '../../payments/payment-queries.ts'
import type { SubscriptionItem } from '../../processor/facts.ts'
import { timing } from '../../timing.ts'
import { refundEffect } from './decide-refunds.ts'
import type { PaymentWithRefunds } from './decide-refunds.ts'
import { ask, eventsRead, until, waitsOf } from './decision.ts'
import type { Decided, History, Later, MappedPrice, Part, Subject } from './decision.ts'
import { failureStreak, ofKind } from './merge-facts.ts'
import type { Invoice } from './merge-facts.ts'
import { PurchasedItem } from './purchased-item.ts'
import { renewalOf } from './scheduled-end.ts'

type DraftEffect = Omit<NewEffect, 'ordered_at' | 'state'>

/** Decides the effects that are sent to licensing, in the order of the processor's clock. */
export function decideEffects(subject: Subject, payments: PaymentWithRefunds[]): Part {
  const { history } = subject
  const main = payments[0]!.payment
  const orderedAt = main.charged_at ?? main.paid_at
  const first = history.effects.has('paid')
    ? { now: orderCorrectedEffect(history, orderedAt) }
    : paidEffect(subject, main, orderedAt)
  if ('later' in first) return { waits: [first] }
  const renewals = renewalEffects(subject)
  const refunds = payments.flatMap((payment) =>
    refundEffects(subject, payment, renewals).map((effect) => ({ effect, complete: payment.complete })),
  )
  const others = [
    ...renewals,
    ...failureEffects(subject),
    ...renewalChangeEffects(subject),
    ...endEffects(subject),
  ].map((effect) => ({ effect, complete: { now: true } as const }))
  const later = [...refunds, ...others]
    .filter(({ effect }) => !history.effects.has(effect.effect_key))
    .sort((one, other) => compare(one.effect, other.effect))
  const effects = [...first.now]
  const waits = unreadInvoices(subject)
  for (const { effect, complete } of later) {
    const decided = 'now' in complete && isEnd(effect) ? othersKnown(subject, effect) : complete
    waits.push(...waitsOf(decided))
    // An effect that waits stops later effects. Otherwise the events about a refund and an end would depend on which arrives first.
    if ('later' in decided) break
    effects.push(effect)
  }
  const state = history.session.status === 'provision_failed' ? 'refused' : 'waiting'
  return { effects: effects.map((effect) => ({ ...effect, ordered_at: orderedAt, state })), waits }
}

/** Orders effects by their time, those of the same time by their rank. An effect on no licence has the rank of a refund. */
function compare(one: DraftEffect, other: DraftEffect): number {
  const rank = ({ kind }: DraftEffect) => effectMeanings[kind ?? 'refunded'].rank
  return (
    one.at.getTime() - other.at.getTime() || rank(one) - rank(other) || (one.cause < other.cause ? -1 : 1)
  )
}

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
    since: null,
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
): DraftEffect[] {
  const at = orderedAt.getTime()
  if (!before || before.getTime() === at) return []
  // Licensing applies each cause once.
  const earlier = [...effects].filter((key) => key.startsWith('order_corrected:')).length
  const cause = earlier === 0 ? session.id : `${session.id}:${earlier}`
  return [newEffect('order_corrected', `order_corrected:${at}:${earlier}`, cause, at)]
}

function paidEffect(subject: Subject, main: PaymentRow, orderedAt: Date): Decided<DraftEffect[]> {
  const { history, checkout, paidAt } = subject
  const { id, plan_id, external_ref, metadata, mode, updates_months } = history.session
  const charge = until(subject, checkout.recordedMs + timing.chargeBeforePaid)
  if (main.charge_state === 'pending' && 'later' in charge) return charge
  const end = endOfFirst(subject)
  if ('later' in end) return end
  const at = Math.max(paidAt, orderedAt.getTime())
  const updates_until = updatesPaid(updates_months, new Date(paidAt))
  const renews = mode === 'subscription'
  const sold = { plan_id, external_ref, ends_at: end.now, updates_until, metadata, renews }
  return { now: [newEffect('paid', 'paid', id, at, sold)] }
}

/** A subscription is not sent before the end of its period is known: without it the licence would never end. */
function endOfFirst(subject: Subject): Decided<Date | null> {
  const { history, invoices, checkout, paidAt, rules } = subject
  const { session } = history
  if (session.mode === 'payment') {
    const { period_months: months } = session
    return { now: months === null ? null : addMonths(new Date(paidAt), months) }
  }
  const first = invoices.find((invoice) => invoice.reason === 'first')
  const reported = first?.periodEnd ?? soldItemOf(subject)?.periodEnd
  if (reported !== undefined) return { now: new Date(reported + rules.graceMs) }
  const invoiceRef = checkout.invoiceRef ?? session.invoice_ref
  const subscriptionRef = checkout.subscriptionRef ?? session.subscription_ref
  // The first invoice is asked for, because the subscription may have entered a later period that is not paid.
  const asked =
    first || invoiceRef === null ? undefined : ask(subject, 'invoice', invoiceRef, checkout.recordedMs)
  if (asked && 'later' in asked) return asked
  const other = subscriptionRef && ask(subject, 'subscription', subscriptionRef, checkout.recordedMs)
  return other && 'later' in other ? other : { later: Infinity, questions: [] }
}

/**
 * The number of paid cycles up to this invoice. Null means the first invoice, which the checkout pays.
 *
 * Effects of one tick of the clock are ordered by the paid cycle that they belong to, so that a refund of one cycle comes before
 * the payment of the next: each cycle adds a millisecond. The end comes last, in the tick's last millisecond.
 */
function countCycles({ invoices, rules }: Subject, invoice: Invoice | null): number {
  const isEarlier = (each: Invoice) => {
    if (invoice === null || each.reason !== 'cycle') return false
    return invoice.reason === 'cycle' ? cycleOf(each) <= cycleOf(invoice) : each.paidAt <= invoice.paidAt
  }
  let cycles = 0
  for (const each of invoices) {
    if (cycles >= rules.tickMs - 2) break
    if (isEarlier(each)) cycles += 1
  }
  return cycles
}

const cycleOf = ({ cycle, periodEnd, paidAt }: Invoice) => cycle ?? periodEnd ?? paidAt

/** The item of the subscription that the purchase is for, in the processor's records. */
export function soldItemOf({ history: { facts, session, prices } }: Subject): SubscriptionItem | undefined {
  const [subscription] = ofKind(facts, 'subscription')
  return subscription && new PurchasedItem(session.price_id, prices).soldAmong(subscription.items)
}

/** Each invoice after the first moves the end, and the plan follows the price. */
function renewalEffects(subject: Subject): DraftEffect[] {
  const { invoices, rules } = subject
  return invoices.flatMap((invoice) => {
    const { invoiceRef, reason, periodEnd, priceRef } = invoice
    if (reason === 'first' || periodEnd === undefined) return []
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
 * If it is not known which line of an invoice is for the purchase, its renewal waits for the processor's answer, however long
 * that takes.
 */
function unreadInvoices(subject: Subject): Later[] {
  const unread = subject.invoices.filter(({ reason, isRead }) => reason !== 'first' && !isRead)
  return waitsOf(
    ...unread.map(({ invoiceRef, recordedMs }) => ask(subject, 'invoice', invoiceRef, recordedMs)),
  )
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
  const cycle = countCycles(subject, invoices.at(-1) ?? null)
  const since = new Date(streak.since + cycle)
  const key = `payment_failed:${streak.invoiceRef}`
  return [newEffect('payment_failed', key, streak.cause, streak.at + cycle, { since })]
}

/**
 * A revocation is permanent, so it waits for events that may prevent it, such as another purchase of the customer. The end of a
 * subscription waits for earlier failures and renewals, so that the vendor gets their events first. After the end, a failure
 * suspends nothing: an expired licence is not suspended.
 */
function othersKnown(subject: Subject, effect: DraftEffect): Decided<true> {
  const { cause } = effect
  const waitMs = isRevocation(effect) ? timing.othersArrive : subject.rules.othersArriveMs
  const knownMs = Math.max(...subject.history.facts.map((fact) => fact.recorded_at.getTime()))
  return eventsRead(subject, cause, knownMs, waitMs)
}

/** Refunds, chargebacks and inquiries of one payment. */
function refundEffects(
  subject: Subject,
  paidBy: PaymentWithRefunds,
  renewals: readonly DraftEffect[],
): DraftEffect[] {
  const { refunds, kinds, disputes } = paidBy
  const cycle = countCycles(subject, paidBy.invoice)
  const inquiries = disputes
    .filter((dispute) => dispute.inquiry && paysForCurrentCycle(subject, paidBy, dispute.openedAt))
    .map((each) => newEffect('inquiry_opened', inquiryOpened(each), each.ref, each.openedAt + cycle))
  // The closing of an inquiry that changed no licence must not end another inquiry.
  const hasOpened = (key: string) =>
    subject.history.effects.has(key) || inquiries.some((each) => each.effect_key === key)
  const refunded = refunds.map((refund) => {
    const { id, ref } = refund
    const { kind, at } = kinds.get(id)!
    const effect = kind === 'full_refund' ? 'refunded' : 'partially_refunded'
    const isCurrent = paysForCurrentCycle(subject, paidBy, at)
    const since = latestBefore(at + cycle, renewals)
    return newEffect(isCurrent ? effect : null, refundEffect(id), ref, at + cycle, { since, refund_id: id })
  })
  const chargedBack = disputes.flatMap(({ id, ref, chargebackAt }) => {
    if (id === undefined || chargebackAt === undefined) return []
    const kind = paysForCurrentCycle(subject, paidBy, chargebackAt) ? 'charged_back' : null
    return [newEffect(kind, refundEffect(id), ref, chargebackAt + cycle, { refund_id: id })]
  })
  const closed = disputes.flatMap((dispute) => {
    const { ref, inquiryClosedAt: at } = dispute
    if (at === undefined || !hasOpened(inquiryOpened(dispute))) return []
    return [newEffect('inquiry_closed', `inquiry_closed:${ref}`, ref, at + cycle)]
  })
  return [...inquiries, ...refunded, ...chargedBack, ...closed].filter(
    ({ refund_id: id }) =>
      id === null || !subject.history.refunds.some((row) => row.id === id && row.processed),
  )
}

/** The latest of these renewals up to a time. If there is none, any renewal is after the result. */
function latestBefore(at: number, renewals: readonly DraftEffect[]): Date {
  return new Date(
    Math.max(0, ...renewals.map((renewal) => renewal.at.getTime()).filter((time) => time <= at)),
  )
}

const inquiryOpened = ({ ref }: { ref: string }) => `inquiry_opened:${ref}`

/**
 * Whether this payment paid for the purchase's current cycle at that time. A proration never does, and neither does a renewal that
 * was paid after the purchase was cancelled: it moves nothing.
 */
function paysForCurrentCycle(subject: Subject, { invoice }: PaymentWithRefunds, at: number): boolean {
  const cancelledAt = endOf(subject)?.at ?? Infinity
  const isCycle = ({ reason, paidAt }: Invoice) => reason === 'cycle' && paidAt <= cancelledAt
  if (invoice && invoice.reason !== 'first' && !isCycle(invoice)) return false
  return !subject.invoices.some(
    (other) =>
      isCycle(other) && other.paidAt <= at && (invoice === null || cycleOf(other) > cycleOf(invoice)),
  )
}

/** The cancellation, in the last millisecond of its tick: what happened in the same tick came before it. */
function endOf({ history, rules }: Subject) {
  const [ended] = ofKind(history.facts, 'subscription_ended')
  return ended && { ...ended, at: ended.endedAt + rules.tickMs - 1 }
}

function endEffects(subject: Subject): DraftEffect[] {
  const { history, checkout } = subject
  const ended = endOf(subject)
  if (!ended || history.effects.has('cancelled')) return []
  const { subscriptionRef, at, endsOn } = ended
  const ends_at = endsOn === undefined ? null : new Date(endsOn)
  return [newEffect('cancelled', 'cancelled', checkout.subscriptionRef ?? subscriptionRef, at, { ends_at })]
}
