import { addMonths } from '../calendar.ts'
import { paymentStates } from '../checkout-sessions/session-queries.ts'
import type { DisputeRow } from '../facts/dispute-facts.ts'
import type { InvoiceRow } from '../facts/subscription-facts.ts'
import type { PaymentRow } from '../payments/payment-queries.ts'
import {
  countingRefunds,
  creditEarnedAt,
  creditLostAt,
  laneOf,
  refundsOf,
  succeededAt,
} from './refund-sums.ts'
import type { LicenceStep, LocalStep, Step } from './step.ts'
import type { Story } from './story.ts'
import { failureStreak } from './subscription-streak.ts'

/**
 * What follows next from a story. A pure function of what is known: the same facts lead to the same steps, in the order
 * of the processor's clock, however they came in.
 */
export function nextStep(story: Story, failuresBeforeSuspend: number): Step | undefined {
  if (story.session.payment_state !== paymentStates.paid) return closing(story)
  return bookkeeping(story) ?? provisioning(story) ?? firstInTime(consequences(story, failuresBeforeSuspend))
}

/** A delayed payment that fails, and a checkout that nobody paid. */
function closing({ session }: Story): LocalStep | undefined {
  if (session.status !== 'open') return undefined
  if (session.payment_state === paymentStates.failed) return { do: 'close', status: 'canceled' }
  if (session.payment_state === paymentStates.expired) return { do: 'close', status: 'expired' }
  return undefined
}

function bookkeeping(story: Story): LocalStep | undefined {
  return (
    recording(story) ??
    first(story.payments, (payment) => linking(story, payment)) ??
    first(story.payments, (payment) => noting(story, payment)) ??
    first(story.payments, (payment) => fees(story, payment))
  )
}

function first<Item, Found>(items: Item[], find: (item: Item) => Found | undefined): Found | undefined {
  for (const item of items) {
    const found = find(item)
    if (found !== undefined) return found
  }
  return undefined
}

function recording(story: Story): LocalStep | undefined {
  if (!story.payments.some((payment) => payment.invoice_ref === null)) {
    return { do: 'record_payment', invoice: undefined }
  }
  return first(laterInvoices(story), (invoice) =>
    story.payments.some((payment) => payment.invoice_ref === invoice.invoice_ref)
      ? undefined
      : { do: 'record_payment', invoice },
  )
}

function isFirst({ session }: Story, invoice: InvoiceRow): boolean {
  return invoice.first || invoice.invoice_ref === session.invoice_ref
}

/** All but the first, which the checkout itself paid. */
function laterInvoices(story: Story): InvoiceRow[] {
  return story.invoices.filter((invoice) => !isFirst(story, invoice))
}

export function firstInvoice(story: Story): InvoiceRow | undefined {
  return story.invoices.find((invoice) => isFirst(story, invoice))
}

function linking(story: Story, payment: PaymentRow): LocalStep | undefined {
  if (payment.payment_ref === null) {
    const paymentRef = paidBy(story, payment)
    return paymentRef ? { do: 'link_payment', payment, paymentRef } : undefined
  }
  const charge = story.charges.get(payment.payment_ref)
  if (!charge) return undefined
  const news = payment.charge_ref === null || (payment.charged_at === null && charge.charged_at !== null)
  return news ? { do: 'link_charge', payment, charge } : undefined
}

function paidBy(story: Story, { invoice_ref: invoiceRef }: PaymentRow): string | null | undefined {
  if (invoiceRef === null) return story.session.payment_ref ?? firstInvoice(story)?.payment_ref
  return story.invoices.find((invoice) => invoice.invoice_ref === invoiceRef)?.payment_ref
}

/** Every refund and chargeback is listed, and as it now stands, whether it has consequences or not. */
function noting(story: Story, payment: PaymentRow): LocalStep | undefined {
  const refund = refundsOf(story, payment).find(
    (each) => story.refunds.get(each.refund_ref)?.status !== each.status,
  )
  if (refund) return { do: 'note_refund', payment, refund, lane: laneOf(story, payment, refund) }
  const dispute = story.disputes.find(
    (each) =>
      each.payment_ref === payment.payment_ref &&
      each.chargeback &&
      story.refunds.get(each.dispute_ref)?.status !== each.status,
  )
  if (dispute) return { do: 'note_chargeback', payment, dispute }
  return first(refundsOf(story, payment), (each) => {
    if (story.refunds.get(each.refund_ref)?.alerted) return undefined
    if (each.currency !== payment.currency) return { do: 'alert', payment, refund: each, problem: 'currency' }
    return each.status === 'failed' ? { do: 'alert', payment, refund: each, problem: 'failed' } : undefined
  })
}

function fees(story: Story, payment: PaymentRow): LocalStep | undefined {
  if (payment.fee_minor === 0n) return undefined
  const posted = story.fees.get(payment.id)
  if (!posted?.has('charge')) {
    // The month is that of the charge: it waits until the charge is found, or cannot be.
    return payment.charge_state === 'pending' ? undefined : { do: 'charge_fee', payment }
  }
  if (story.hold || !isRipe(story, payment)) return undefined
  const earned = creditEarnedAt(story, payment)
  if (earned && !posted.has('credit')) return { do: 'credit_fee', payment, at: earned }
  const lost = posted.has('credit') && !posted.has('reversal') && creditLostAt(story, payment)
  return lost ? { do: 'reverse_credit', payment, at: lost } : undefined
}

function provisioning(story: Story): LicenceStep | undefined {
  const { session } = story
  if (session.status === 'provisioned' || session.status === 'provision_failed') return undefined
  if (session.mode === 'payment') {
    const months = session.period_months
    return { do: 'provision', expiresOn: months === null ? undefined : addMonths(session.paid_at!, months) }
  }
  // Without an end the licence would be for ever: it waits for whoever tells the period first.
  const periodEnd = firstInvoice(story)?.period_end ?? session.period_end
  return periodEnd ? { do: 'provision', expiresOn: periodEnd } : undefined
}

/** Whether something has been held back that is to be looked at again. */
export function isHeld(story: Story): boolean {
  return story.hold && reversals(story).length > 0
}

/** What takes a payment back, or threatens to. */
function reversals(story: Story): Consequence[] {
  return [inquiries, refundSteps, chargebacks, endedInquiries].flatMap((steps) =>
    story.payments.filter((payment) => isRipe(story, payment)).flatMap((payment) => steps(story, payment)),
  )
}

/** All that is known of a payment takes effect together, in its order, or waits. */
function isRipe(story: Story, payment: PaymentRow): boolean {
  return (
    refundsOf(story, payment).every((refund) => refund.ripe) &&
    disputesOf(story, payment).every((dispute) => dispute.ripe)
  )
}

type Consequence = Exclude<LicenceStep, { do: 'provision' }>

/**
 * All that is due. The processor's clock counts in seconds: within one, they stand in the order in which they can follow
 * one another.
 */
function consequences(story: Story, failuresBeforeSuspend: number): Consequence[] {
  const { session } = story
  if (session.status !== 'provisioned') return []
  return [
    ...renewals(story),
    ...failures(story, failuresBeforeSuspend),
    ...(story.hold ? [] : reversals(story)),
    ...(story.subscriptionEndedAt && !session.subscription_ended
      ? [{ do: 'end_subscription' as const, at: story.subscriptionEndedAt }]
      : []),
  ]
}

function firstInTime(steps: Consequence[]): Consequence | undefined {
  return steps.reduce<Consequence | undefined>(
    (earliest, step) => (earliest === undefined || step.at < earliest.at ? step : earliest),
    undefined,
  )
}

function renewals(story: Story): Consequence[] {
  return story.payments
    .filter((payment) => payment.invoice_ref !== null && !payment.renewed)
    .map((payment) => ({ do: 'renew', payment, at: payment.paid_at }))
}

function failures(story: Story, failuresBeforeSuspend: number): Consequence[] {
  const found = failureStreak(story, failuresBeforeSuspend)
  if (!found || story.session.suspended_streak === found.streak) return []
  return [{ do: 'suspend_for_failures', ...found }]
}

function disputesOf(story: Story, payment: PaymentRow): DisputeRow[] {
  return story.disputes.filter((dispute) => dispute.payment_ref === payment.payment_ref)
}

function inquiries(story: Story, payment: PaymentRow): Consequence[] {
  return disputesOf(story, payment)
    .filter((dispute) => dispute.inquiry && !dispute.suspended)
    .map((dispute) => ({ do: 'suspend_for_inquiry', dispute, at: dispute.opened_at }))
}

function endedInquiries(story: Story, payment: PaymentRow): Consequence[] {
  return disputesOf(story, payment).flatMap((dispute): Consequence[] =>
    dispute.inquiry_closed && !dispute.resumed
      ? [{ do: 'resume_from_inquiry', dispute, at: dispute.inquiry_closed_at ?? dispute.opened_at }]
      : [],
  )
}

function chargebacks(story: Story, payment: PaymentRow): Consequence[] {
  return disputesOf(story, payment).flatMap((dispute): Consequence[] =>
    dispute.chargeback && !story.refunds.get(dispute.dispute_ref)?.processed
      ? [{ do: 'process_chargeback', payment, dispute, at: dispute.chargeback_at ?? dispute.opened_at }]
      : [],
  )
}

function refundSteps(story: Story, payment: PaymentRow): Consequence[] {
  const next = countingRefunds(story, payment).find(
    (refund) => !story.refunds.get(refund.refund_ref)?.processed,
  )
  if (!next) return []
  const lane = laneOf(story, payment, next)
  const at = succeededAt(next)
  return [{ do: 'process_refund', payment, refund: next, lane, oldCycle: isOldCycle(story, payment, at), at }]
}

/**
 * A refund of a cycle that had been followed by another paid one, when it was made, takes no licence away: what runs now
 * is paid for. A chargeback always does.
 */
function isOldCycle(story: Story, payment: PaymentRow, at: Date): boolean {
  return story.payments.some((other) => isLaterCycle(other, payment) && other.paid_at <= at)
}

function isLaterCycle(one: PaymentRow, other: PaymentRow): boolean {
  if (one.invoice_ref === null) return false
  if (other.invoice_ref === null) return true
  return (one.period_end ?? one.paid_at) > (other.period_end ?? other.paid_at)
}

/** What a replay of the session would do, or why there is nothing to replay. */
export function replayStep(story: Story): Extract<LicenceStep, { do: 'provision' }> | string {
  const { session } = story
  if (session.payment_state !== paymentStates.paid)
    return 'it has not been paid, so there is nothing to replay'
  if (session.status === 'provisioned') return 'its licence has been issued, so there is nothing to replay'
  const returned = [...story.refunds.values()].some(
    (refund) =>
      refund.lane === 'chargeback' || (refund.lane === 'full_refund' && refund.status === 'succeeded'),
  )
  if (returned) return 'its payment was given back in full, so there is nothing to replay'
  const step = provisioning({ ...story, session: { ...session, status: 'open' } })
  return step?.do === 'provision'
    ? step
    : 'the payment processor has not reported its period yet: it will be provisioned as soon as it does'
}
