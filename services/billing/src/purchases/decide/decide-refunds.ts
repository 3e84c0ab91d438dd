import { createHash } from 'node:crypto'
import { amountText } from '@licensing/money/amounts'
import { newId } from '@licensing/database/ids'
import type { RefundLane } from '@licensing/proto/closed-sets'
import type { VendorAlert } from '../../alerts/alert-vendor.ts'
import type { PaymentRow } from '../../payments/payment-queries.ts'
import type { RefundRow } from '../../refunds/refund-queries.ts'
import type { ChargedPayment, PaymentPart } from './decide-payments.ts'
import { ask, differ, hasPassed } from './decision.ts'
import type { Subject } from './decision.ts'
import { mergeDisputes, mergeRefunds, sortedBy } from './merge-facts.ts'
import type { MergedDispute, MergedRefund } from './merge-facts.ts'
import { lanesOf } from './refund-steps.ts'
import type { CountedRefund, TimedLane } from './refund-steps.ts'
import { timing } from '../../timing.ts'

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
  const { payment, parts } = charged
  const rows = allRows.filter((row) => row.payment_id === payment.id)
  const reported = parts.map((part) => {
    const { paymentRef } = part
    return { part, refunds: mergeRefunds(facts, paymentRef), disputes: mergeDisputes(facts, paymentRef) }
  })
  const complete = reported.map((each) => isComplete(subject, payment, each))
  const at = (refund: MergedRefund) => refund.succeededAt ?? refund.createdAt
  const known = reported.flatMap((each) => each.refunds)
  const inOrder = sortedBy(known, 'createdAt', 'ref').sort((a, b) => at(a) - at(b))
  const rowOf = ({ ref }: { ref: string }) => rows.find((row) => row.ref === ref)
  const refunds = inOrder.map((refund) => ({ ...refund, id: rowOf(refund)?.id ?? newId('rfd') }))
  // A refund in another currency than the charge does not count.
  const counted = refunds.filter(
    (refund): refund is CountedRefund =>
      refund.succeededAt !== undefined && refund.currency === payment.currency,
  )
  const total = Number(payment.amount)
  const decided = rows.filter((row) => isDecided(subject, row)).map((row) => [row.id, row.lane] as const)
  const result: PaymentWithRefunds = {
    ...charged,
    total,
    refunds: counted,
    lanes: lanesOf(counted, total, new Map(decided)),
    disputes: sortedBy(
      reported.flatMap((each) => each.disputes),
      'openedAt',
      'ref',
    ).map((dispute) => ({ ...dispute, id: listChargeback(subject, payment, dispute, rowOf(dispute)) })),
    isComplete: complete.every(Boolean),
  }
  for (const refund of refunds) listRefund(subject, result, refund, rowOf(refund))
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

/**
 * Whether all refunds and disputes of a part are known. If there are any, or if the charge's total says so, the processor's
 * records of the charge are read first. They contain the content of events that have not arrived yet, so that effects are
 * sent in the order in which they happened. The records have no history: a refund that failed may have succeeded before, a
 * chargeback may have been an inquiry. If the processor does not answer, events have some time to arrive.
 */
function isComplete(
  subject: Subject,
  payment: PaymentRow,
  { part, refunds, disputes }: { part: PaymentPart; refunds: MergedRefund[]; disputes: MergedDispute[] },
): boolean {
  const all = [...refunds, ...disputes]
  const refunded = part.charge?.refunded ?? 0
  if (all.length === 0 && refunded === 0) return true
  const chargeRef = part.chargeRef ?? payment.charge_ref
  if (chargeRef !== null) {
    const statuses = all.map((each) => `${each.ref}:${each.status}`).sort()
    const known = createHash('sha256').update(statuses.join()).digest('base64url')
    const { waiting, found } = ask(subject, 'records', `${chargeRef}:${refunded}:${known}`, -Infinity)
    if (waiting) return false
    if (found && all.every((each) => each.isFullyReported)) return true
  }
  const lastKnown = Math.max(...all.map((each) => each.recordedMs))
  return all.length === 0 || hasPassed(subject, lastKnown + timing.othersArrive)
}

function sumOf(refunds: MergedRefund[]): number {
  return refunds.reduce((sum, refund) => sum + refund.amount, 0)
}

function listRefund(
  subject: Subject,
  refunded: PaymentWithRefunds,
  refund: MergedRefund & { id: string },
  row: RefundRow | undefined,
): void {
  const { payment } = refunded
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
  row: RefundRow | undefined,
): string | undefined {
  if (dispute.chargebackAt === undefined) return undefined
  const id = row?.id ?? newId('rfd')
  const occurred_at = new Date(dispute.openedAt)
  saveRow(subject, payment, dispute, row, { id, lane: 'chargeback', occurred_at, alerted: false })
  return id
}

/** Writes the row if it changed. Its lane does not change after its effect was decided. */
function saveRow(
  subject: Subject,
  payment: PaymentRow,
  { ref, chargeRef, amount, currency, status }: MergedRefund | MergedDispute,
  row: RefundRow | undefined,
  fields: Pick<RefundRow, 'id' | 'lane' | 'occurred_at' | 'alerted'>,
): void {
  const next: RefundRow = {
    ...fields,
    payment_id: payment.id,
    ref,
    charge_ref: chargeRef ?? row?.charge_ref ?? null,
    amount: BigInt(amount),
    currency,
    status,
    lane: row && isDecided(subject, row) ? row.lane : fields.lane,
    processed: row?.processed ?? false,
    alerted: fields.alerted || (row?.alerted ?? false),
  }
  if (!row || differ(row, next, ['charge_ref', 'status', 'lane', 'alerted']))
    subject.decision.refunds.push(next)
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
  const charge = refund.chargeRef ?? payment.charge_ref ?? payment.payment_ref ?? payment.id
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
