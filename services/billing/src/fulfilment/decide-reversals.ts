import { newId } from '@licensing/database/ids'
import type { RefundLane } from '@licensing/proto/closed-sets'
import type { Links } from '../processors/facts.ts'
import type { PaymentRow } from '../payments/payment-queries.ts'
import type { RefundRow } from '../refunds/refund-queries.ts'
import { foldDisputes, foldRefunds, paymentsOfCharges } from './fold.ts'
import type { FoldedDispute, FoldedRefund } from './fold.ts'
import { inferredRefunds, isInferred } from './inferred-refunds.ts'
import { ask, lookAgain } from './subject.ts'
import type { PaymentView, ReversedPayment, Subject } from './subject.ts'
import { timing } from './timing.ts'

/** Refunds and disputes of a payment: lists every one as it now stands, whether it has consequences or not. */
export function decideReversals(subject: Subject, view: PaymentView): ReversedPayment {
  const { history } = subject
  const { payment, charge } = view
  const payments = paymentsOfCharges(history.facts)
  const isOf = ({ paymentRef, chargeRef }: Links) =>
    payment.payment_ref !== null &&
    (paymentRef ?? payments.get(chargeRef ?? '') ?? chargeRef) === payment.payment_ref
  const reported = foldRefunds(history.facts, isOf)
  const disputes = foldDisputes(history.facts, isOf)
  const rows = history.refunds.filter((row) => row.payment_id === payment.id)
  const asked = whatRecordsSay(subject, view, reported, disputes)
  const refunds = inOrder(withInferred(subject, view, reported, rows, asked.silent))
  const total = charge?.amount ?? Number(payment.amount)
  const reversed: ReversedPayment = { ...view, total, refunds: [], disputes: [], settled: asked.settled }
  const all = refunds.map((refund) => ({
    ...refund,
    id: rowOf(refund, rows, payment)?.id ?? newId('rfd'),
  }))
  // Another currency is never compared with the charge's.
  reversed.refunds = all.filter(
    (refund) => refund.succeededAt !== undefined && refund.currency === payment.currency,
  )
  for (const refund of all) note(subject, reversed, refund, rows)
  reversed.disputes = disputes
    .toSorted((a, b) => a.openedAt - b.openedAt || (a.ref < b.ref ? -1 : 1))
    .map((dispute) => ({ ...dispute, id: noteDispute(subject, payment, dispute, rows) }))
  return reversed
}

function inOrder(refunds: FoldedRefund[]): FoldedRefund[] {
  const at = (refund: FoldedRefund) => refund.succeededAt ?? refund.createdAt
  return refunds.toSorted(
    (a, b) => at(a) - at(b) || a.createdAt - b.createdAt || (a.ref < b.ref ? -1 : a.ref > b.ref ? 1 : 0),
  )
}

/**
 * Before a refund or a dispute has consequences, the processor's records of the charge are read: they have what other
 * events, still on their way, will report, so that all of it takes effect in the order in which it happened. They do not
 * say how and when it came about: a refund that failed may have succeeded before, a chargeback may have been an inquiry.
 */
function whatRecordsSay(
  subject: Subject,
  { charge, payment }: PaymentView,
  refunds: FoldedRefund[],
  disputes: FoldedDispute[],
): { settled: boolean; silent: boolean } {
  const all = [...refunds, ...disputes]
  const missing = (charge?.refunded ?? 0) > refunds.reduce((sum, refund) => sum + refund.amount, 0)
  if (all.length === 0 && !missing) return { settled: true, silent: false }
  const latest = Math.max(0, ...all.map((each) => each.recordedAt))
  const now = subject.now.getTime()
  const chargeRef = charge?.ref ?? payment.charge_ref
  const news = all.map((each) => `${each.ref}:${each.status}`).sort()
  const { waiting, question } = chargeRef
    ? ask(
        subject,
        'records',
        `${chargeRef}:${charge?.refunded ?? 0}:${news.join()}`.slice(0, 2_000),
        -Infinity,
      )
    : { waiting: false, question: undefined }
  const confirmed = question?.found === true && !missing && all.every((each) => each.explained)
  const settledAt = latest + timing.othersArrive
  if (!confirmed && now < settledAt && all.length > 0) lookAgain(subject, settledAt)
  return {
    settled: all.length === 0 || confirmed || now >= settledAt,
    silent: !waiting && question?.found !== true,
  }
}

/** What the charge's total shows and no refund has reported, for processors that report it by the charge alone. */
function withInferred(
  subject: Subject,
  { charge }: PaymentView,
  reported: FoldedRefund[],
  rows: RefundRow[],
  silent: boolean,
): FoldedRefund[] {
  if (!charge) return reported
  const { refunds, waitsUntil } = inferredRefunds(subject, charge, reported, rows, silent)
  if (waitsUntil !== undefined) lookAgain(subject, waitsUntil)
  return refunds
}

/** The row of a refund; one that had been inferred takes the reported refund's reference. */
function rowOf(refund: FoldedRefund, rows: RefundRow[], payment: PaymentRow): RefundRow | undefined {
  return (
    rows.find((row) => row.payment_id === payment.id && row.ref === refund.ref) ??
    (refund.derived ? undefined : rows.find((row) => isInferred(row) && row.amount === BigInt(refund.amount)))
  )
}

function note(
  { decision }: Subject,
  view: ReversedPayment,
  refund: FoldedRefund & { id: string },
  rows: RefundRow[],
): void {
  const { payment } = view
  const row = rows.find((each) => each.id === refund.id)
  const lane = laneOf(view, refund, rows)
  const otherCurrency = refund.currency !== payment.currency
  const alerted = otherCurrency || refund.status === 'failed'
  if (alerted && !row?.alerted) decision.alerts.push(alertOf(payment, refund, otherCurrency))
  const isNews =
    !row ||
    row.status !== refund.status ||
    row.ref !== refund.ref ||
    (alerted && !row.alerted) ||
    (!row.processed && row.lane !== lane)
  if (!isNews) return
  decision.refunds.push({
    id: refund.id,
    payment_id: payment.id,
    ref: refund.ref,
    amount: BigInt(refund.amount),
    currency: refund.currency,
    lane: row?.processed ? row.lane : lane,
    status: refund.status,
    occurred_at: new Date(refund.createdAt),
    processed: row?.processed ?? false,
    alerted: alerted || (row?.alerted ?? false),
  })
}

/** @returns the row's id, where it is a chargeback */
function noteDispute(
  { decision }: Subject,
  payment: PaymentRow,
  dispute: FoldedDispute,
  rows: RefundRow[],
): string | undefined {
  if (dispute.chargebackAt === undefined) return undefined
  const row = rows.find((each) => each.ref === dispute.ref)
  const id = row?.id ?? newId('rfd')
  if (row?.status !== dispute.status) {
    decision.refunds.push({
      id,
      payment_id: payment.id,
      ref: dispute.ref,
      amount: BigInt(dispute.amount),
      currency: dispute.currency,
      lane: 'chargeback',
      status: dispute.status,
      occurred_at: new Date(dispute.openedAt),
      processed: row?.processed ?? false,
      alerted: row?.alerted ?? false,
    })
  }
  return id
}

/**
 * Partials that add up to the whole amount end as a full refund: the one that completes it. One that is pending will
 * come after all others; one that ended without having succeeded is seen as it was when it was made.
 */
export function laneOf(
  { refunds, total }: ReversedPayment,
  refund: FoldedRefund & { id: string },
  rows: RefundRow[],
): RefundLane {
  const at = refund.succeededAt ?? (refund.status === 'pending' ? Infinity : refund.createdAt)
  const place = refunds.findIndex((other) => other.id === refund.id)
  const earlier = refunds.filter((other, index) => {
    if (other.id === refund.id) return false
    const failed = other.status === 'failed' && (other.failedAt === undefined || other.failedAt <= at)
    if (place < 0) return !failed && other.succeededAt! <= at
    const first = index < place || rows.some((row) => row.id === other.id && row.processed)
    return !failed && first
  })
  const sum = earlier.reduce((amount, other) => amount + other.amount, 0)
  return sum + refund.amount >= total ? 'full_refund' : 'partial_refund'
}

function alertOf(payment: PaymentRow, refund: FoldedRefund, otherCurrency: boolean) {
  const charge = payment.charge_ref ?? payment.payment_ref ?? payment.id
  const what = `Refund ${refund.ref} of ${refund.amount} ${refund.currency} on charge ${charge}`
  const licence = payment.licence_id ?? '(none)'
  return otherCurrency
    ? {
        kind: 'processor_event_parked' as const,
        subject: `A refund in another currency on charge ${charge}`,
        text: `${what} is in another currency than the charge (${payment.currency}). It was not counted and changed no licence: look at it at the payment processor, and change the licence ${licence} yourself if need be.`,
      }
    : {
        kind: 'refund_reversed' as const,
        subject: `A refund failed on charge ${charge}`,
        text: `${what} failed at the payment processor: the customer did not get the money. The licence ${licence} stays as it is; a revoked licence cannot be revived, issue a new one if the customer is to keep it. A fee that had been credited for the refund is charged again.`,
      }
}
