import { addMonths } from '../calendar.ts'
import type { PaymentRow } from '../payments/payment-queries.ts'
import { laneOf } from './decide-reversals.ts'
import type { ReversedPayment } from './decide-reversals.ts'
import { ask, lookAgain } from './decision.ts'
import type { NewEffect, Subject } from './decision.ts'
import { failureStreak, ofKind } from './fold.ts'
import { timing } from './timing.ts'

/** What licensing is sent, in the order of the processor's clock. */
export function decideEffects(subject: Subject, payments: ReversedPayment[]): void {
  const { history, decision } = subject
  const main = payments[0]!.payment
  const orderedAt = main.charged_at ?? main.paid_at
  const effects = [...landed(subject, main, orderedAt)]
  if (effects.length === 0 && !history.effects.has('landed')) return
  const moved =
    effects.length === 0 && history.orderedAt && history.orderedAt.getTime() !== orderedAt.getTime()
  if (moved) effects.push(reordered(orderedAt, history.session.id))
  const { session } = history
  effects.push(
    ...consequences(subject, payments)
      .filter((effect) => !history.effects.has(effect.effect_key))
      // Within a second they stand in the order in which they can follow one another, which is the one they are in.
      .sort((a, b) => a.at.getTime() - b.at.getTime()),
  )
  const refused = session.status === 'provision_failed'
  decision.effects = effects.map((effect) => ({
    ...effect,
    ordered_at: orderedAt,
    state: refused ? 'refused' : 'waiting',
  }))
}

function effect(
  kind: NewEffect['kind'],
  effectKey: string,
  cause: string,
  atMs: number,
  more: Partial<NewEffect> = {},
): NewEffect {
  const at = new Date(atMs)
  return {
    effect_key: effectKey,
    kind,
    cause,
    at,
    ordered_at: at,
    plan_id: null,
    external_ref: null,
    ends_at: null,
    charged_back: false,
    refund_id: null,
    state: 'waiting',
    ...more,
  }
}

function reordered(orderedAt: Date, sessionId: string): NewEffect {
  return effect('reordered', `reordered:${orderedAt.getTime()}`, sessionId, orderedAt.getTime())
}

function* landed(subject: Subject, main: PaymentRow, orderedAt: Date): Generator<NewEffect> {
  const { history, checkout, paidAt, now } = subject
  const { session } = history
  if (history.effects.has('landed')) return
  const waitsUntil = checkout.recordedMs + timing.chargeBeforeLanding
  if (main.charge_state === 'pending' && now.getTime() < waitsUntil) return lookAgain(subject, waitsUntil)
  const ends = endOfFirst(subject)
  if (ends === 'unknown') return
  yield effect('landed', 'landed', session.id, Math.max(paidAt, orderedAt.getTime()), {
    plan_id: session.plan_id,
    external_ref: session.external_ref,
    ends_at: ends,
  })
}

/** Without its period's end a subscription would stand forever: it waits for what reports it first. */
function endOfFirst(subject: Subject): Date | null | 'unknown' {
  const { history, invoices, checkout, paidAt, rules } = subject
  const { session } = history
  if (session.mode === 'payment') {
    return session.period_months === null ? null : addMonths(new Date(paidAt), session.period_months)
  }
  const reported =
    invoices.find((invoice) => invoice.reason === 'first')?.periodEnd ??
    ofKind(history.facts, 'subscription').at(0)?.periodEnd
  if (reported !== undefined) return new Date(reported + rules.graceMs)
  const subscriptionRef = checkout.subscriptionRef ?? session.subscription_ref
  if (subscriptionRef) ask(subject, 'subscription', subscriptionRef, checkout.recordedMs)
  return 'unknown'
}

function consequences(subject: Subject, payments: ReversedPayment[]): NewEffect[] {
  return [
    ...renewals(subject),
    ...failures(subject),
    ...payments.filter((view) => view.settled).flatMap((view) => ofReversals(subject, view)),
    ...end(subject),
  ]
}

/** Every invoice that is paid later: a renewal moves the end, and the plan follows the price. */
function renewals({ history, invoices, rules }: Subject): NewEffect[] {
  return invoices
    .filter((invoice) => invoice.reason !== 'first')
    .map((invoice) =>
      effect('renewed', `renewed:${invoice.invoiceRef}`, invoice.invoiceRef, invoice.paidAt, {
        ends_at: invoice.periodEnd === undefined ? null : new Date(invoice.periodEnd + rules.graceMs),
        plan_id: (invoice.priceRef && history.planOfPrice.get(invoice.priceRef)) ?? null,
      }),
    )
    .filter((renewed) => renewed.ends_at !== null)
}

function failures({ history, invoices, rules }: Subject): NewEffect[] {
  const streak = failureStreak(history.facts, invoices, rules.failuresBeforeSuspend)
  return streak
    ? [effect('payments_failed', `failed:${streak.invoiceRef}`, streak.invoiceRef, streak.at)]
    : []
}

/** Refunds, chargebacks and inquiries of one payment. */
function ofReversals(subject: Subject, view: ReversedPayment): NewEffect[] {
  const { refunds, disputes } = view
  const rows = subject.history.refunds
  const inquiries = disputes
    .filter((dispute) => dispute.inquiry && runsOn(subject, view, dispute.openedAt))
    .map((each) => effect('inquiry_opened', `inquiry:${each.ref}`, each.ref, each.openedAt))
  const given = refunds.map((refund) => {
    const lane = laneOf(view, refund, rows)
    const at = refund.succeededAt
    const kind = lane === 'full_refund' ? ('given_back' as const) : ('partly_refunded' as const)
    return effect(runsOn(subject, view, at) ? kind : null, `refund:${refund.id}`, refund.ref, at, {
      refund_id: refund.id,
    })
  })
  const chargedBack = disputes.flatMap((dispute) => {
    const { id, ref, chargebackAt } = dispute
    if (id === undefined || chargebackAt === undefined) return []
    const kind = runsOn(subject, view, chargebackAt) ? ('given_back' as const) : null
    return [effect(kind, `refund:${id}`, ref, chargebackAt, { refund_id: id, charged_back: true })]
  })
  const closed = disputes.flatMap(({ ref, inquiryClosedAt }) =>
    inquiryClosedAt === undefined
      ? []
      : [effect('inquiry_closed', `inquiry_closed:${ref}`, ref, inquiryClosedAt)],
  )
  const processed = new Set(rows.filter((row) => row.processed).map((row) => row.id))
  return [...inquiries, ...given, ...chargedBack, ...closed].filter(
    ({ refund_id: id }) => id === null || !processed.has(id),
  )
}

/** Whether the purchase ran on this payment at that time: it was its latest paid cycle, and is no proration. */
function runsOn({ invoices }: Subject, { invoice }: ReversedPayment, at: number): boolean {
  if (invoice?.reason === 'proration') return false
  const endOf = (each: { periodEnd: number | undefined; paidAt: number }) => each.periodEnd ?? each.paidAt
  return !invoices.some(
    (other) =>
      other.reason === 'cycle' && other.paidAt <= at && (invoice === null || endOf(other) > endOf(invoice)),
  )
}

function end(subject: Subject): NewEffect[] {
  const { history, checkout, now } = subject
  const [ended] = history.facts.filter(({ fact }) => fact.kind === 'subscription_ended')
  if (ended?.fact.kind !== 'subscription_ended' || history.effects.has('cancelled')) return []
  const { subscriptionRef, endedAt, paymentsFailed } = ended.fact
  const waitsUntil = ended.recorded_at.getTime() + timing.othersArrive
  if (paymentsFailed && now.getTime() < waitsUntil) {
    lookAgain(subject, waitsUntil)
    return []
  }
  return [effect('cancelled', 'cancelled', checkout.subscriptionRef ?? subscriptionRef, endedAt)]
}
