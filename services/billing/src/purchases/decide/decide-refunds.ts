import { createHash } from 'node:crypto'
import { amountText } from '@licensing/money/amounts'
import { newId } from '@licensing/database/ids'
import type { RefundKind } from '@licensing/proto/closed-sets'
import type { VendorAlert } from '../../alerts/alert-vendor.ts'
import type { PaymentRow } from '../../payments/payment-queries.ts'
import type { RefundRow } from '../../refunds/refund-queries.ts'
import type { ChargedPayment, PaymentPart } from './decide-payments.ts'
import { allOf, ask, differ, eventsRead, waitsOf } from './decision.ts'
import type { Decided, Subject } from './decision.ts'
import { mergeDisputes, mergeRefunds, sortedBy } from './merge-facts.ts'
import type { MergedDispute, MergedRefund } from './merge-facts.ts'
import { kindsOf } from './refund-steps.ts'
import type { CountedRefund, TimedKind } from './refund-steps.ts'

export interface PaymentWithRefunds extends ChargedPayment {
  /** The charged amount. A tax or a discount makes it differ from the price. */
  total: number
  /** Refunds that count, in the order in which they succeeded. */
  refunds: CountedRefund[]
  /** The kind of each refund, by the id of its row. */
  kinds: Map<string, TimedKind>
  /** `id` is set only for a chargeback, because only a chargeback has a row. */
  disputes: (MergedDispute & { id: string | undefined })[]
  /** Waits until all refunds and disputes of the payment are known. Until then none of them has an effect. */
  complete: Decided<true>
}

/** Decides the rows of a payment's refunds and disputes, whether or not they have an effect. */
export function decideRefunds(subject: Subject, charged: ChargedPayment): PaymentWithRefunds {
  const { facts, refunds: allRows } = subject.history
  const { payment, parts } = charged
  const before = new Map(allRows.filter((row) => row.payment_id === payment.id).map((row) => [row.ref, row]))
  const reported = parts.map((part) => {
    const { paymentRef } = part
    return { part, refunds: mergeRefunds(facts, paymentRef), disputes: mergeDisputes(facts, paymentRef) }
  })
  const idOf = ({ ref }: { ref: string }) => before.get(ref)?.id ?? newId('rfd')
  const at = (refund: MergedRefund) => refund.succeededAt ?? refund.createdAt
  const refunds = sortedBy(
    reported.flatMap((each) => each.refunds),
    'createdAt',
    'ref',
  )
    .sort((a, b) => at(a) - at(b))
    .map((refund) => ({ ...refund, id: idOf(refund) }))
  const disputes = sortedBy(
    reported.flatMap((each) => each.disputes),
    'openedAt',
    'ref',
  ).map((dispute) => ({ ...dispute, id: dispute.chargebackAt === undefined ? undefined : idOf(dispute) }))
  // A refund in another currency than the charge does not count.
  const counted = refunds.filter(
    (refund): refund is CountedRefund =>
      refund.succeededAt !== undefined && refund.currency === payment.currency,
  )
  const total = Number(payment.amount)
  // The kind does not change after the effect was decided.
  const isDecided = ({ id, processed }: RefundRow) =>
    processed || subject.history.effects.has(refundEffect(id))
  const decided = new Map([...before.values()].filter(isDecided).map((row) => [row.id, row.kind]))
  const kinds = kindsOf(counted, total, decided)
  const row = (
    { ref, chargeRef, amount, currency, status }: MergedRefund | MergedDispute,
    fields: Pick<RefundRow, 'id' | 'kind' | 'occurred_at' | 'alerted'>,
  ): RefundRow => {
    const known = before.get(ref)
    return {
      ...fields,
      payment_id: payment.id,
      ref,
      charge_ref: chargeRef ?? known?.charge_ref ?? null,
      amount: BigInt(amount),
      currency,
      status,
      kind: decided.get(fields.id) ?? fields.kind,
      processed: known?.processed ?? false,
      alerted: fields.alerted || (known?.alerted ?? false),
    }
  }
  const rows = [
    ...refunds.map((refund) =>
      row(refund, {
        id: refund.id,
        kind: kinds.get(refund.id)?.kind ?? kindOfUncounted(counted, total, refund),
        occurred_at: new Date(refund.createdAt),
        alerted: refund.status === 'failed' || refund.currency !== payment.currency,
      }),
    ),
    ...disputes.flatMap((dispute) =>
      dispute.id === undefined
        ? []
        : [
            row(dispute, {
              id: dispute.id,
              kind: 'chargeback',
              occurred_at: new Date(dispute.openedAt),
              alerted: false,
            }),
          ],
    ),
  ]
  const isChanged = (row: RefundRow) => {
    const known = before.get(row.ref)
    return !known || differ(known, row, ['charge_ref', 'status', 'kind', 'alerted'])
  }
  const complete = allOf(...reported.map((each) => areAllKnown(subject, payment, each)))
  const part = {
    refunds: rows.filter(isChanged),
    alerts: rows
      .filter((row) => row.alerted && !before.get(row.ref)?.alerted)
      .map((row) => alertOf(payment, row)),
    waits: waitsOf(complete),
  }
  return { ...charged, total, refunds: counted, kinds, disputes, complete, part }
}

/** The key of the effect of a refund or a chargeback. */
export function refundEffect(id: string): string {
  return `refund:${id}`
}

/**
 * Waits until all refunds and disputes of a part are known. If there are any, or if the charge's total says so, the processor's
 * records of the charge are read first. They contain the content of events that have not arrived yet, so that effects are
 * sent in the order in which they happened. The records have no history: a refund that failed may have succeeded before, a
 * chargeback may have been an inquiry. Then the events are read, too.
 */
function areAllKnown(
  subject: Subject,
  payment: PaymentRow,
  { part, refunds, disputes }: { part: PaymentPart; refunds: MergedRefund[]; disputes: MergedDispute[] },
): Decided<true> {
  const all = [...refunds, ...disputes]
  const refunded = part.charge?.refunded ?? 0
  if (all.length === 0 && refunded === 0) return { now: true }
  const chargeRef = part.chargeRef ?? payment.charge_ref
  const statuses = all.map((each) => `${each.ref}:${each.status}`).sort()
  const known = createHash('sha256').update(statuses.join()).digest('base64url')
  if (chargeRef !== null) {
    const found = ask(subject, 'records', `${chargeRef}:${refunded}:${known}`, -Infinity)
    if ('later' in found) return found
    if (found.now && all.every((each) => each.isFullyReported)) return { now: true }
  }
  const lastKnown = Math.max(...all.map((each) => each.recordedMs))
  return eventsRead(subject, known, lastKnown, subject.rules.othersArriveMs)
}

/** A pending or failed refund does not count. It has the kind that it would have if it succeeded now, or when it was created. */
function kindOfUncounted(counted: CountedRefund[], total: number, refund: MergedRefund): RefundKind {
  const at = refund.status === 'pending' ? Infinity : refund.createdAt
  const earlier = counted.filter(
    ({ status, failedAt, succeededAt }) =>
      succeededAt <= at && (status !== 'failed' || (failedAt ?? -Infinity) > at),
  )
  const sum = earlier.reduce((sum, { amount }) => sum + amount, refund.amount)
  return sum >= total ? 'full_refund' : 'partial_refund'
}

function alertOf(payment: PaymentRow, refund: RefundRow): VendorAlert {
  const charge = refund.charge_ref ?? payment.charge_ref ?? payment.payment_ref ?? payment.id
  const what = `Refund ${refund.ref} of ${amountText(refund.amount, refund.currency)} on charge ${charge}`
  const licence = payment.licence_id ?? '(none)'
  return refund.currency !== payment.currency
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
