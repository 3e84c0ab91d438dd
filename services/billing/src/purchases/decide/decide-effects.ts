import { addMonths } from '../../calendar.ts'
import type { PaymentRow } from '../../payments/payment-queries.ts'
import type { SubscriptionItem } from '../../processor/facts.ts'
import { refundEffect } from '../../refunds/decide-refunds.ts'
import type { ReversedPayment } from '../../refunds/decide-refunds.ts'
import { ask, hasCome } from './decision.ts'
import type { History, NewEffect, Subject } from './decision.ts'
import { failureStreak, ofKind } from './merge-facts.ts'
import type { Invoice } from './merge-facts.ts'
import { PurchasedItem } from './purchased-item.ts'
import { timing } from '../timing.ts'

/** What licensing is sent, in the order of the processor's clock. */
export function decideEffects(subject: Subject, payments: ReversedPayment[]): void {
  const { history, decision } = subject
  const { session, effects: known } = history
  const main = payments[0]!.payment
  const orderedAt = main.charged_at ?? main.paid_at
  const first = known.has('landed') ? reordered(history, orderedAt) : landed(subject, main, orderedAt)
  if (!first && !known.has('landed')) return
  const unsettled = new Set<Consequence>()
  const reversals = payments.flatMap((view) => {
    const own = ofReversals(subject, view)
    if (!view.settled) for (const each of own) unsettled.add(each)
    return own
  })
  const consequences = [...renewals(subject), ...failures(subject), ...reversals, ...end(subject)]
    .filter((effect) => !known.has(effect.effect_key))
    // Within a second they stand in the order in which they can follow one another, which is the one they are in.
    .sort((a, b) => a.at.getTime() - b.at.getTime())
  // What waits stops what came after it, or a refund and an end would lead to other events for the vendor than in their order.
  const waits = (each: Consequence) =>
    unsettled.has(each) || (each.kind === 'given_back' && !mayRevoke(subject, each))
  const firstWaiting = consequences.findIndex(waits)
  if (firstWaiting >= 0) consequences.splice(firstWaiting)
  decision.effects = [...(first ? [first] : []), ...consequences].map((effect) => ({
    ...effect,
    ordered_at: orderedAt,
    state: session.status === 'provision_failed' ? 'refused' : 'waiting',
  }))
}

type Consequence = Omit<NewEffect, 'ordered_at' | 'state'>

function effect(
  kind: NewEffect['kind'],
  effectKey: string,
  cause: string,
  atMs: number,
  more: Partial<Consequence> = {},
): Consequence {
  return {
    effect_key: effectKey,
    kind,
    cause,
    at: new Date(atMs),
    plan_id: null,
    external_ref: null,
    ends_at: null,
    charged_back: false,
    refund_id: null,
    ...more,
  }
}

/** Its first charge turned out to be of another time than licensing was last given. */
function reordered({ orderedAt: before, session }: History, orderedAt: Date): Consequence | undefined {
  const at = orderedAt.getTime()
  return before && before.getTime() !== at
    ? effect('reordered', `reordered:${at}`, session.id, at)
    : undefined
}

function landed(subject: Subject, main: PaymentRow, orderedAt: Date): Consequence | undefined {
  const { history, checkout, paidAt } = subject
  const { id, plan_id, external_ref } = history.session
  const waitsUntil = checkout.recordedMs + timing.chargeBeforeLanding
  if (main.charge_state === 'pending' && !hasCome(subject, waitsUntil)) return undefined
  const ends_at = endOfFirst(subject)
  if (ends_at === 'unknown') return undefined
  const at = Math.max(paidAt, orderedAt.getTime())
  return effect('landed', 'landed', id, at, { plan_id, external_ref, ends_at })
}

/** Without its period's end a subscription would stand forever: it waits for what reports it first. */
function endOfFirst(subject: Subject): Date | null | 'unknown' {
  const { history, invoices, checkout, paidAt, rules } = subject
  const { session } = history
  if (session.mode === 'payment') {
    return session.period_months === null ? null : addMonths(new Date(paidAt), session.period_months)
  }
  const reported =
    invoices.find((invoice) => invoice.reason === 'first')?.periodEnd ?? soldItemOf(subject)?.periodEnd
  if (reported !== undefined) return new Date(reported + rules.graceMs)
  const subscriptionRef = checkout.subscriptionRef ?? session.subscription_ref
  if (subscriptionRef) ask(subject, 'subscription', subscriptionRef, checkout.recordedMs)
  return 'unknown'
}

// The processor's clock counts seconds. Within a second, effects stand in the order of the paid cycles that they are of, so
// that a refund of one cycle comes before the payment of the next: each cycle is a millisecond later. An end comes last.
const mostCycles = 998
const endOfSecond = 999

/** How many paid cycles of a subscription there were with this invoice; null: the first, which the checkout pays. */
function cyclesWith({ invoices }: Subject, invoice: Invoice | null): number {
  const earlier = invoices.filter((each) => {
    if (invoice === null || each.reason !== 'cycle') return false
    return invoice.reason === 'cycle' ? endOf(each) <= endOf(invoice) : each.paidAt <= invoice.paidAt
  })
  return Math.min(earlier.length, mostCycles)
}

const endOf = ({ periodEnd, paidAt }: Invoice) => periodEnd ?? paidAt

function soldItemOf({ history: { facts, session, planOfPrice } }: Subject): SubscriptionItem | undefined {
  const [subscription] = ofKind(facts, 'subscription')
  return subscription && new PurchasedItem(session.price_id, planOfPrice).soldAmong(subscription.items)
}

/**
 * Every invoice that is paid later: a renewal moves the end, and the plan follows the price. If it is not known which
 * line is for the purchase, the renewal waits for the processor's answer, however long that takes.
 */
function renewals(subject: Subject): Consequence[] {
  const { history, invoices, rules } = subject
  return invoices.flatMap((invoice) => {
    const { invoiceRef, reason, isRead, periodEnd, priceRef, recordedMs } = invoice
    if (reason === 'first') return []
    if (!isRead) ask(subject, 'invoice', invoiceRef, recordedMs)
    if (periodEnd === undefined) return []
    const ends_at = new Date(periodEnd + rules.graceMs)
    const plan_id = history.planOfPrice.get(priceRef ?? '') ?? null
    const at = invoice.paidAt + cyclesWith(subject, invoice)
    return [effect('renewed', `renewed:${invoiceRef}`, invoiceRef, at, { ends_at, plan_id })]
  })
}

function failures(subject: Subject): Consequence[] {
  const { history, invoices, rules } = subject
  const streak = failureStreak(history.facts, invoices, rules.failuresBeforeSuspend)
  if (!streak) return []
  const at = streak.at + cyclesWith(subject, invoices.at(-1) ?? null)
  return [effect('payments_failed', `failed:${streak.invoiceRef}`, streak.invoiceRef, at)]
}

/**
 * A revocation is permanent. Before it, events that come together with it have a moment to arrive, and those that the
 * processor lists and that have not arrived are read: one may be of a purchase that keeps the licence. A processor that
 * does not answer delays it by a second.
 */
function mayRevoke(subject: Subject, { cause }: Consequence): boolean {
  const knownMs = Math.max(...subject.history.facts.map((fact) => fact.recorded_at.getTime()))
  const { waiting } = ask(subject, 'events', cause, knownMs)
  const haveArrived = hasCome(subject, knownMs + timing.othersArrive)
  return haveArrived && (!waiting || hasCome(subject, knownMs + timing.lookAtEvents))
}

/** Refunds, chargebacks and inquiries of one payment. */
function ofReversals(subject: Subject, view: ReversedPayment): Consequence[] {
  const { refunds, parts, disputes } = view
  const cycle = cyclesWith(subject, view.invoice)
  const inquiries = disputes
    .filter((dispute) => dispute.inquiry && runsOn(subject, view, dispute.openedAt))
    .map((each) => effect('inquiry_opened', `inquiry:${each.ref}`, each.ref, each.openedAt + cycle))
  const given = refunds.map((refund) => {
    const { id, ref } = refund
    const { lane, at } = parts.get(id)!
    const kind = lane === 'full_refund' ? 'given_back' : 'partly_refunded'
    const isCurrent = runsOn(subject, view, at)
    return effect(isCurrent ? kind : null, refundEffect(id), ref, at + cycle, { refund_id: id })
  })
  const chargedBack = disputes.flatMap(({ id, ref, chargebackAt }) => {
    if (id === undefined || chargebackAt === undefined) return []
    const kind = runsOn(subject, view, chargebackAt) ? 'given_back' : null
    const more = { refund_id: id, charged_back: true }
    return [effect(kind, refundEffect(id), ref, chargebackAt + cycle, more)]
  })
  const closed = disputes.flatMap(({ ref, inquiryClosedAt }) =>
    inquiryClosedAt === undefined
      ? []
      : [effect('inquiry_closed', `inquiry_closed:${ref}`, ref, inquiryClosedAt + cycle)],
  )
  const processed = new Set(subject.history.refunds.filter((row) => row.processed).map((row) => row.id))
  return [...inquiries, ...given, ...chargedBack, ...closed].filter(
    ({ refund_id: id }) => id === null || !processed.has(id),
  )
}

/** Whether the purchase ran on this payment at that time: it was its latest paid cycle, and is no proration. */
function runsOn({ invoices }: Subject, { invoice }: ReversedPayment, at: number): boolean {
  if (invoice?.reason === 'proration') return false
  return !invoices.some(
    (other) =>
      other.reason === 'cycle' && other.paidAt <= at && (invoice === null || endOf(other) > endOf(invoice)),
  )
}

function end(subject: Subject): Consequence[] {
  const { history, checkout } = subject
  const [ended] = ofKind(history.facts, 'subscription_ended')
  if (!ended || history.effects.has('cancelled')) return []
  const { subscriptionRef, endedAt, paymentsFailed, recordedMs } = ended
  if (paymentsFailed && !hasCome(subject, recordedMs + timing.othersArrive)) return []
  const at = endedAt + endOfSecond
  return [effect('cancelled', 'cancelled', checkout.subscriptionRef ?? subscriptionRef, at)]
}
