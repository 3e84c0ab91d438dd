import { amountText } from '@licensing/money/amounts'
import { newId } from '@licensing/database/ids'
import type { RefundLane } from '@licensing/proto/closed-sets'
import type { VendorAlert } from '../alerts/alert-vendor.ts'
import type { PaymentRow } from '../payments/payment-queries.ts'
import type { RefundRow } from './refund-queries.ts'
import type { ChargedPayment } from '../payments/decide-payments.ts'
import { ask, differ, hasPassed } from '../purchases/decide/decision.ts'
import type { Subject } from '../purchases/decide/decision.ts'
import { mergeDisputes, mergeRefunds, ofKind, sortedBy } from '../purchases/decide/merge-facts.ts'
import type { Charge, MergedDispute, MergedRefund } from '../purchases/decide/merge-facts.ts'
import { lanesOf } from './refund-steps.ts'
import type { CountedRefund, TimedLane } from './refund-steps.ts'
import { timing } from '../purchases/timing.ts'

export interface PaymentWithRefunds extends ChargedPayment {
  /** The charged amount. A tax or a discount makes it differ from the price. */
  total: number
  /** Refunds that count, in the order in which they succeeded. */
  refunds: CountedRefund[]
  /** The lane of each refund, by the id of its row. */
  lanes: Map<string, TimedLane>
  /** `id` is set only for a chargeback, because only a chargeback has a row. */
  disputes: (MergedDispute & { id: string | undefined })[]
  /** Whether all refunds and disputes of the payment are known. Until then none of them has an effect. */
  isComplete: boolean
}

/** Decides the rows of a payment's refunds and disputes, whether or not they have an effect. */
export function decideRefunds(subject: Subject, charged: ChargedPayment): PaymentWithRefunds {
  const { facts, refunds: allRows } = subject.history
  const { payment, charge } = charged
  const { id: paymentId, payment_ref: paymentRef, currency } = payment
  const rows = allRows.filter((row) => row.payment_id === paymentId)
  const reported = paymentRef === null ? [] : mergeRefunds(facts, paymentRef)
  const disputes = paymentRef === null ? [] : mergeDisputes(facts, paymentRef)
  const { isComplete, found, unanswered } = askForRecords(subject, charged, reported, disputes)
  const { known, waits } = charge
    ? addInferred(subject, charge, reportedAndInferred(reported, rows), { found, unanswered })
    : { known: reported, waits: false }
  const at = (refund: MergedRefund) => refund.succeededAt ?? refund.createdAt
  const inOrder = sortedBy(known, 'createdAt', 'ref').sort((a, b) => at(a) - at(b))
  const own = rowsOf(inOrder, rows)
  const refunds = inOrder.map((refund) => ({ ...refund, id: own.get(refund.ref)?.id ?? newId('rfd') }))
  // A refund in another currency than the charge does not count.
  const counted = refunds.filter(
    (refund): refund is CountedRefund => refund.succeededAt !== undefined && refund.currency === currency,
  )
  const total = charge?.amount ?? Number(payment.amount)
  const decided = rows.filter((row) => isDecided(subject, row)).map((row) => [row.id, row.lane] as const)
  const result: PaymentWithRefunds = {
    ...charged,
    total,
    refunds: counted,
    lanes: lanesOf(counted, total, new Map(decided)),
    disputes: disputes.map((dispute) => ({
      ...dispute,
      id: listChargeback(subject, payment, dispute, rows),
    })),
    isComplete: isComplete && !waits,
  }
  for (const refund of refunds) listRefund(subject, result, refund, rows)
  return result
}

/** Whether its effect was decided. From then on its lane does not change. */
function isDecided({ history }: Subject, { id, processed }: RefundRow): boolean {
  return processed || history.effects.has(refundEffect(id))
}

/** The key of the effect of a refund or a chargeback. */
export function refundEffect(id: string): string {
  return `refund:${id}`
}

interface Answer {
  /** Whether the processor returned its records of the charge. */
  found: boolean
  /** Whether the processor was asked `maxUnanswered` times and did not answer. */
  unanswered: boolean
}

/**
 * Before a refund or a dispute has an effect, the processor's records of the charge are read. They contain the content of
 * events that have not arrived yet, so that effects are sent in the order in which they happened. The records have no
 * history: a refund that failed may have succeeded before, a chargeback may have been an inquiry.
 */
function askForRecords(
  subject: Subject,
  { charge, payment }: ChargedPayment,
  refunds: MergedRefund[],
  disputes: MergedDispute[],
): { isComplete: boolean } & Answer {
  const all = [...refunds, ...disputes]
  const refunded = charge?.refunded ?? 0
  const missing = refunded > sumOf(refunds)
  if (all.length === 0 && !missing) return { isComplete: true, found: false, unanswered: false }
  const chargeRef = charge?.chargeRef ?? payment.charge_ref
  const statuses = all.map((each) => `${each.ref}:${each.status}`).sort()
  const known = `${chargeRef}:${refunded}:${statuses.join()}`.slice(0, 2_000)
  const { waiting, found } = chargeRef
    ? ask(subject, 'records', known, -Infinity)
    : { waiting: false, found: false }
  const unanswered = !waiting && !found
  if (all.length === 0) return { isComplete: true, found, unanswered }
  const completeAt = Math.max(...all.map((each) => each.recordedMs)) + timing.othersArrive
  const confirmed = found && !missing && all.every((each) => each.isFullyReported)
  return { isComplete: confirmed || hasPassed(subject, completeAt), found, unanswered }
}

/** The reference of an inferred refund is the charge's id, a colon and the refunded total. */
function isInferred({ ref }: { ref: string }): boolean {
  return ref.includes(':')
}

/**
 * The reported refunds, and the refunds that were inferred before. A reported refund without a row that is part of an
 * inferred one does not count.
 */
function reportedAndInferred(reported: MergedRefund[], rows: RefundRow[]): MergedRefund[] {
  const reportedRows = rowsOf(reported, rows)
  const usedRows = new Set(reportedRows.values())
  const inferredRows = rows.filter((row) => isInferred(row) && !usedRows.has(row))
  let inferredAmount = inferredRows.reduce((sum, row) => sum + Number(row.amount), 0)
  const isPartOfInferred = ({ ref, amount }: MergedRefund) => {
    if (reportedRows.has(ref) || amount > inferredAmount) return false
    inferredAmount -= amount
    return true
  }
  return [
    ...reported.filter((refund) => !isPartOfInferred(refund)),
    ...inferredRows.map((row) =>
      inferred(row.ref, Number(row.amount), row.currency, row.occurred_at.getTime()),
    ),
  ]
}

/**
 * Adds the refunds that a charge's totals include and that are not known, for processors that report refunds only by the
 * charge.
 *
 * @returns `waits`: a total includes a refund that may be earlier than the known ones and may still be reported, so no
 *   refund has an effect yet
 */
function addInferred(
  subject: Subject,
  charge: Charge,
  known: MergedRefund[],
  { found, unanswered }: Answer,
): { known: MergedRefund[]; waits: boolean } {
  const charged = ofKind(subject.history.facts, 'charge')
  const refunded = charged.filter((fact) => fact.chargeRef === charge.chargeRef && fact.refunded > 0)
  const totals = sortedBy(refunded, 'refunded', 'reportedAt')
  const missingAt = (at: number, total: number, refunds: MergedRefund[]) =>
    total - sumOf(refunds.filter((refund) => refund.createdAt <= at))
  const missing = charge.refunded - sumOf(known)
  // A refund was created after a total that was reported without it.
  const isGap = totals.some((fact) => missingAt(fact.reportedAt, fact.refunded, known) > 0)
  if (missing <= 0 && !isGap) return { known, waits: false }

  const lastRecorded = Math.max(...totals.map((fact) => fact.recordedMs))
  const othersHaveArrived = hasPassed(subject, lastRecorded + timing.othersArrive)
  if (missing <= 0) return { known, waits: !othersHaveArrived }
  const isDue = unanswered ? othersHaveArrived : hasPassed(subject, lastRecorded + timing.missingRefund)
  if (!isDue) return { known, waits: !(found && othersHaveArrived) }

  const all = [...known]
  let remaining = missing
  for (const { refunded: total, reportedAt } of totals) {
    const amount = Math.min(remaining, missingAt(reportedAt, total, all))
    if (amount <= 0) continue
    remaining -= amount
    all.push(inferred(`${charge.chargeRef}:${total}`, amount, charge.currency, reportedAt))
  }
  return { known: all, waits: false }
}

function inferred(ref: string, amount: number, currency: string, at: number): MergedRefund {
  return {
    ref,
    amount,
    currency,
    createdAt: at,
    status: 'succeeded',
    succeededAt: at,
    failedAt: undefined,
    recordedMs: at,
    isFullyReported: true,
  }
}

function sumOf(refunds: MergedRefund[]): number {
  return refunds.reduce((sum, refund) => sum + refund.amount, 0)
}

/** The row of each refund, by its reference. The row of an inferred refund becomes that of a reported one. */
function rowsOf(refunds: MergedRefund[], rows: RefundRow[]): Map<string, RefundRow> {
  const listed = new Map(rows.map((row) => [row.ref, row]))
  const found = new Map<string, RefundRow>()
  for (const { ref } of refunds) {
    const row = listed.get(ref)
    if (row) found.set(ref, row)
  }
  const usedRows = new Set(found.values())
  for (const { ref, amount } of refunds.filter((refund) => !isInferred(refund) && !found.has(refund.ref))) {
    const inferredRow = rows.find(
      (row) => isInferred(row) && !usedRows.has(row) && row.amount === BigInt(amount),
    )
    if (!inferredRow) continue
    found.set(ref, inferredRow)
    usedRows.add(inferredRow)
  }
  return found
}

function listRefund(
  subject: Subject,
  refunded: PaymentWithRefunds,
  refund: MergedRefund & { id: string },
  rows: RefundRow[],
): void {
  const { payment } = refunded
  const row = rows.find((each) => each.id === refund.id)
  const isOtherCurrency = refund.currency !== payment.currency
  const alerted = isOtherCurrency || refund.status === 'failed'
  if (alerted && !row?.alerted) subject.decision.alerts.push(alertOf(payment, refund, isOtherCurrency))
  const occurred_at = new Date(refund.createdAt)
  const lane = refunded.lanes.get(refund.id)?.lane ?? laneOfUncounted(refunded, refund)
  saveRow(subject, payment, refund, row, { id: refund.id, lane, occurred_at, alerted })
}

/** @returns the row's id if the dispute is a chargeback */
function listChargeback(
  subject: Subject,
  payment: PaymentRow,
  dispute: MergedDispute,
  rows: RefundRow[],
): string | undefined {
  if (dispute.chargebackAt === undefined) return undefined
  const row = rows.find((each) => each.ref === dispute.ref)
  const id = row?.id ?? newId('rfd')
  const occurred_at = new Date(dispute.openedAt)
  saveRow(subject, payment, dispute, row, { id, lane: 'chargeback', occurred_at, alerted: false })
  return id
}

/** Writes the row if it changed. Its lane does not change after its effect was decided. */
function saveRow(
  subject: Subject,
  payment: PaymentRow,
  { ref, amount, currency, status }: MergedRefund | MergedDispute,
  row: RefundRow | undefined,
  fields: Pick<RefundRow, 'id' | 'lane' | 'occurred_at' | 'alerted'>,
): void {
  const next: RefundRow = {
    ...fields,
    payment_id: payment.id,
    ref,
    amount: BigInt(amount),
    currency,
    status,
    lane: row && isDecided(subject, row) ? row.lane : fields.lane,
    processed: row?.processed ?? false,
    alerted: fields.alerted || (row?.alerted ?? false),
  }
  if (!row || differ(row, next, ['ref', 'status', 'lane', 'alerted'])) subject.decision.refunds.push(next)
}

/** A pending or failed refund does not count. It has the lane that it would have if it succeeded now, or when it was created. */
function laneOfUncounted({ refunds, total }: PaymentWithRefunds, refund: MergedRefund): RefundLane {
  const at = refund.status === 'pending' ? Infinity : refund.createdAt
  const earlier = refunds.filter(
    ({ status, failedAt, succeededAt }) =>
      succeededAt <= at && (status !== 'failed' || (failedAt ?? -Infinity) > at),
  )
  return sumOf(earlier) + refund.amount >= total ? 'full_refund' : 'partial_refund'
}

function alertOf(payment: PaymentRow, refund: MergedRefund, isOtherCurrency: boolean): VendorAlert {
  const charge = payment.charge_ref ?? payment.payment_ref ?? payment.id
  const what = `Refund ${refund.ref} of ${amountText(refund.amount, refund.currency)} on charge ${charge}`
  const licence = payment.licence_id ?? '(none)'
  return isOtherCurrency
    ? {
        kind: 'processor_event_parked',
        subject: `A refund in another currency on charge ${charge}`,
        text: `${what} is in another currency than the charge (${payment.currency.toUpperCase()}). It was not counted and changed no licence: look at it at the payment processor, and change the licence ${licence} yourself if need be.`,
      }
    : {
        kind: 'refund_reversed',
        subject: `A refund failed on charge ${charge}`,
        text: `${what} failed at the payment processor: the customer did not get the money. The licence ${licence} stays as it is; a revoked licence cannot be revived, issue a new one if the customer is to keep it. A fee that had been credited for the refund is charged again.`,
      }
}
