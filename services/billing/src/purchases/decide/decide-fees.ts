import { newId } from '@licensing/database/ids'
import type { FeeKind } from '@licensing/proto/closed-sets'
import { creditWindowMs, isFeeRefundCause, periodOf } from '../../fees/fee.ts'
import type { PaymentWithRefunds } from './decide-refunds.ts'
import type { LedgerEntry, Part, Subject } from './decision.ts'
import { stepsOf } from './refund-steps.ts'
import type { CountedRefund } from './refund-steps.ts'

/** Posts the fee of a payment, and credits and reversals that follow from its refunds. */
export function decideFees({ history, now }: Subject, refunded: PaymentWithRefunds): Part {
  const { payment } = refunded
  if (payment.fee_minor === 0n) return {}
  const posted = history.ledger.filter((entry) => entry.payment_id === payment.id)
  const chargedAt = payment.charged_at ?? payment.paid_at
  const charge = posted.find((entry) => entry.kind === 'charge')
  // A fee belongs to the month of the charge, so it waits until the charge is known or cannot be found.
  if (!charge && payment.charge_state === 'pending') return {}
  const entry = (change: Pick<LedgerEntry, 'kind' | 'cause' | 'occurred_at'>): LedgerEntry => ({
    id: newId('fee'),
    payment_id: payment.id,
    amount_minor: change.kind === 'credit' ? -payment.fee_minor : payment.fee_minor,
    currency: payment.currency,
    // A credit belongs to the month of the charge, so that it never enlarges the budget of another month.
    period: charge?.period ?? periodOf(chargedAt),
    ...change,
  })
  const charges = charge ? [] : [entry({ kind: 'charge', cause: '', occurred_at: chargedAt })]
  if ('later' in refunded.complete) return { entries: charges }
  const before = posted.flatMap(({ kind, cause }) => (kind === 'charge' ? [] : [{ kind, cause }]))
  const wanted = feeChanges(refunded.refunds, refunded.total, chargedAt.getTime())
  const changes = missingChanges(wanted, before, now.getTime()).map(({ kind, cause, at }) =>
    entry({ kind, cause, occurred_at: new Date(at) }),
  )
  // A credited fee is also refunded at the processor, unless the credit was reversed in the meantime.
  const credits = changes.filter(({ kind }) => kind === 'credit')
  const reversals = changes.length - credits.length
  return {
    entries: [...charges, ...changes],
    cancelledFeeRefunds: reversals > 0 && reversals >= credits.length ? [payment.id] : [],
    feeRefunds: credits.slice(reversals).map(({ id, amount_minor: amount }) => {
      return { fee_entry_id: id, payment_id: payment.id, amount_minor: -amount }
    }),
  }
}

/** A credit of a payment's fee, or the reversal of a credit. */
export interface FeeChange {
  kind: Exclude<FeeKind, 'charge'>
  /** The refund that completed the amount, or that failed. */
  cause: string
  at: number
}

/**
 * Each time the refunds reach the whole amount within `creditWindowMs`, the fee is credited. Each time a refund fails after
 * that, the credit is reversed.
 */
export function feeChanges(refunds: CountedRefund[], total: number, chargedAt: number): FeeChange[] {
  const changes: FeeChange[] = []
  let credited = false
  for (const { refund, direction, at, refunded } of stepsOf(refunds, total)) {
    if (!credited && direction === 1 && refunded >= total && refund.createdAt - chargedAt <= creditWindowMs) {
      credited = true
      changes.push({ kind: 'credit', cause: refund.ref, at: refund.createdAt })
    } else if (credited && refunded < total) {
      credited = false
      changes.push({ kind: 'reversal', cause: refund.ref, at })
    }
  }
  return changes
}

type Key = Pick<FeeChange, 'kind' | 'cause'>

const isSame = (one: Key) => (other: Key) => one.kind === other.kind && one.cause === other.cause

/**
 * The entries to post so that the ledger has the wanted changes. An entry that was posted for another cause, because the
 * facts became known in another order, replaces the last missing change of its kind, so that nothing is credited twice. A
 * credit for a fee that was refunded at the processor is never reversed, because the processor cannot take it back.
 */
export function missingChanges(wanted: FeeChange[], posted: readonly Key[], now: number): FeeChange[] {
  const missing = wanted.filter((change) => !posted.some(isSame(change)))
  const others = posted.filter((change) => !wanted.some(isSame(change)))
  let refundedCredits = 0
  for (const other of others) {
    const at = missing.findLastIndex((change) => change.kind === other.kind)
    if (at >= 0) missing.splice(at, 1)
    else if (isFeeRefundCause(other.cause)) refundedCredits += 1
  }
  const difference = countCredits([...posted, ...missing]) - countCredits(wanted) - refundedCredits
  const last = others.at(-1)?.cause ?? ''
  if (difference > 0) missing.push({ kind: 'reversal', cause: `${last}:taken back`, at: now })
  if (difference < 0) missing.push({ kind: 'credit', cause: `${last}:given again`, at: now })
  return missing
}

function countCredits(changes: readonly Key[]): number {
  return changes.reduce((sum, { kind }) => sum + (kind === 'credit' ? 1 : -1), 0)
}
