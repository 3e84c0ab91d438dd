import { newId } from '@licensing/database/ids'
import type { FeeKind } from '@licensing/proto/closed-sets'
import { creditWindowMs, isGivenBackCause, periodOf } from './fee.ts'
import type { ReversedPayment } from '../refunds/decide-refunds.ts'
import type { LedgerEntry, Subject } from '../purchases/decide/decision.ts'
import { stepsOf } from '../refunds/refund-steps.ts'
import type { CountedRefund } from '../refunds/refund-steps.ts'

/** The fee of a payment, and what its refunds do to it. */
export function decideFees(subject: Subject, view: ReversedPayment): void {
  const { history, decision, now } = subject
  const { payment } = view
  if (payment.fee_minor === 0n) return
  const posted = history.ledger.filter((entry) => entry.payment_id === payment.id)
  const chargedAt = payment.charged_at ?? payment.paid_at
  const charge = posted.find((entry) => entry.kind === 'charge')
  // The month is that of the charge: it waits until the charge is found, or cannot be.
  if (!charge && payment.charge_state === 'pending') return
  const entry = (change: Pick<LedgerEntry, 'kind' | 'cause' | 'occurred_at'>): LedgerEntry => ({
    id: newId('fee'),
    payment_id: payment.id,
    amount_minor: change.kind === 'credit' ? -payment.fee_minor : payment.fee_minor,
    currency: payment.currency,
    // Credits count for the month of the charge, so that they never enlarge another one's budget.
    period: charge?.period ?? periodOf(chargedAt),
    ...change,
  })
  if (!charge) decision.entries.push(entry({ kind: 'charge', cause: '', occurred_at: chargedAt }))
  if (!view.settled) return
  const before = posted.flatMap(({ kind, cause }) => (kind === 'charge' ? [] : [{ kind, cause }]))
  const wanted = feeChanges(view.refunds, view.total, chargedAt.getTime())
  const changes = missingChanges(wanted, before, now.getTime()).map(({ kind, cause, at }) =>
    entry({ kind, cause, occurred_at: new Date(at) }),
  )
  decision.entries.push(...changes)
  giveBack(subject, changes, payment.id)
}

/** A credit is given back at the processor too, unless it was reversed in the meantime. */
function giveBack({ decision }: Subject, changes: LedgerEntry[], paymentId: string): void {
  const credits = changes.filter((entry) => entry.kind === 'credit')
  const reversals = changes.length - credits.length
  if (reversals > 0 && reversals >= credits.length) decision.canceledFeeRefunds.push(paymentId)
  for (const { id, amount_minor: amount } of credits.slice(reversals)) {
    decision.feeRefunds.push({ fee_entry_id: id, payment_id: paymentId, amount_minor: -amount })
  }
}

/** What a payment's refunds did to its fee: credits and their reversals. */
export interface FeeChange {
  kind: Exclude<FeeKind, 'charge'>
  /** The refund that completed it, or that took it back. */
  cause: string
  at: number
}

/**
 * Each time that the refunds come to the whole amount in time, the fee is credited; each time that one fails and takes
 * that back, the credit is reversed.
 */
export function feeChanges(refunds: CountedRefund[], total: number, chargedAt: number): FeeChange[] {
  const changes: FeeChange[] = []
  let credited = false
  for (const { refund, by, at, standing } of stepsOf(refunds, total)) {
    if (!credited && by === 1 && standing >= total && refund.createdAt - chargedAt <= creditWindowMs) {
      credited = true
      changes.push({ kind: 'credit', cause: refund.ref, at: refund.createdAt })
    } else if (credited && standing < total) {
      credited = false
      changes.push({ kind: 'reversal', cause: refund.ref, at })
    }
  }
  return changes
}

type Key = Pick<FeeChange, 'kind' | 'cause'>

const sameAs = (one: Key) => (other: Key) => one.kind === other.kind && one.cause === other.cause

/**
 * What is to be posted so that the ledger has these changes. One that was posted for another cause, because the facts
 * came in another order, stands for the last of its kind that is missing, so that nothing is credited twice. A credit for
 * a fee that was given back at the processor is never taken back: the processor has no such thing.
 */
export function missingChanges(wanted: FeeChange[], posted: readonly Key[], now: number): FeeChange[] {
  const missing = wanted.filter((change) => !posted.some(sameAs(change)))
  const others = posted.filter((change) => !wanted.some(sameAs(change)))
  let kept = 0
  for (const other of others) {
    const at = missing.findLastIndex((change) => change.kind === other.kind)
    if (at >= 0) missing.splice(at, 1)
    else if (isGivenBackCause(other.cause)) kept += 1
  }
  const difference = net([...posted, ...missing]) - net(wanted) - kept
  const last = others.at(-1)?.cause ?? ''
  if (difference > 0) missing.push({ kind: 'reversal', cause: `${last}:taken back`, at: now })
  if (difference < 0) missing.push({ kind: 'credit', cause: `${last}:given again`, at: now })
  return missing
}

function net(changes: readonly Key[]): number {
  return changes.reduce((sum, { kind }) => sum + (kind === 'credit' ? 1 : -1), 0)
}
