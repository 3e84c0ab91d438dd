import type { RefundLane } from '@licensing/proto/closed-sets'
import type { RefundFactRow } from '../facts/refund-facts.ts'
import { creditWindowMs } from '../fees/fee.ts'
import type { PaymentRow } from '../payments/payment-queries.ts'
import type { Story } from './story.ts'

/** The refunds that count against a payment, in the order in which they came to be. */
export function countingRefunds(story: Story, payment: PaymentRow): RefundFactRow[] {
  // Another currency is never compared with the charge's.
  return refundsOf(story, payment).filter(
    (refund) => refund.succeeded && refund.currency === payment.currency,
  )
}

export function refundsOf(story: Story, payment: PaymentRow): RefundFactRow[] {
  return story.refundFacts.filter((refund) => refund.payment_ref === payment.payment_ref)
}

/** What was charged: a tax or a discount makes it another amount than the price. */
function totalOf(story: Story, payment: PaymentRow): bigint {
  return story.charges.get(payment.payment_ref ?? '')?.amount ?? payment.amount
}

/** When it came to be, by the processor's clock. */
export function succeededAt(refund: RefundFactRow): Date {
  return refund.succeeded_at ?? refund.created_at
}

function hadFailedBy(refund: RefundFactRow, at: Date): boolean {
  return refund.status === 'failed' && (refund.failed_at === null || refund.failed_at <= at)
}

function sum(refunds: RefundFactRow[]): bigint {
  return refunds.reduce((total, refund) => total + refund.amount, 0n)
}

/** Partials that add up to the whole amount end as a full refund: the one that completes it. */
export function laneOf(story: Story, payment: PaymentRow, refund: RefundFactRow): RefundLane {
  const refunds = countingRefunds(story, payment)
  const earlier = refunds.filter(
    (other) =>
      other !== refund &&
      !hadFailedBy(other, succeededAt(refund)) &&
      (refunds.indexOf(other) < refunds.indexOf(refund) ||
        story.refunds.get(other.refund_ref)?.processed === true),
  )
  return sum(earlier) + refund.amount >= totalOf(story, payment) ? 'full_refund' : 'partial_refund'
}

/** When the refunds came to the whole amount, whatever became of them later. */
function completedAt(story: Story, payment: PaymentRow): Date | undefined {
  const refunds = countingRefunds(story, payment)
  return refunds.find((refund, at) => {
    const standing = refunds.slice(0, at + 1).filter((other) => !hadFailedBy(other, succeededAt(refund)))
    return sum(standing) >= totalOf(story, payment)
  })?.created_at
}

/** When the payment's fee was earned back (decisions 7), or undefined where it was not. */
export function creditEarnedAt(story: Story, payment: PaymentRow): Date | undefined {
  const completed = completedAt(story, payment)
  if (!completed) return undefined
  const charged = payment.charged_at ?? payment.paid_at
  return completed.getTime() - charged.getTime() <= creditWindowMs ? completed : undefined
}

/** When a failed refund took back that the whole amount was refunded. */
export function creditLostAt(story: Story, payment: PaymentRow): Date | undefined {
  const refunds = countingRefunds(story, payment)
  const failed = refunds.filter((refund) => refund.status === 'failed')
  const standing = refunds.filter((refund) => refund.status !== 'failed')
  if (failed.length === 0 || sum(standing) >= totalOf(story, payment)) return undefined
  const times = failed.map((refund) => (refund.failed_at ?? succeededAt(refund)).getTime())
  return new Date(Math.min(...times))
}
