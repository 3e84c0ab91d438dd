import type { FeeKind } from '@licensing/proto/closed-sets'
import { creditWindowMs } from '../fees/fee.ts'
import type { FoldedRefund } from './fold.ts'

/** What a payment's refunds did to its fee: credits and their reversals. */
export interface FeeChange {
  kind: Exclude<FeeKind, 'charge'>
  /** The refund that completed it, or that took it back. */
  cause: string
  at: number
}

interface Step {
  refund: FoldedRefund
  by: 1 | -1
  at: number
}

/**
 * Each time that the refunds come to the whole amount in time, the fee is credited; each time that one fails and takes
 * that back, the credit is reversed.
 */
export function feeChanges(refunds: FoldedRefund[], total: number, chargedAt: number): FeeChange[] {
  const changes: FeeChange[] = []
  let standing = 0
  let credited = false
  for (const { refund, by, at } of inOrder(refunds, total)) {
    standing += by * refund.amount
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

/**
 * Successes and failures by the processor's clock. It counts in seconds: within one, no more is refunded than was
 * charged, so that what has to fail before another can succeed does.
 */
function inOrder(refunds: FoldedRefund[], total: number): Step[] {
  const left: Step[] = refunds
    .flatMap((refund): Step[] => {
      const succeeded = refund.succeededAt!
      const success: Step = { refund, by: 1, at: succeeded }
      if (refund.status !== 'failed') return [success]
      return [success, { refund, by: -1, at: Math.max(succeeded, refund.failedAt ?? succeeded) }]
    })
    .sort(
      (a, b) =>
        a.at - b.at ||
        Number(a.refund.status !== 'failed') - Number(b.refund.status !== 'failed') ||
        b.by - a.by ||
        (a.refund.ref < b.refund.ref ? -1 : 1),
    )
  const steps: Step[] = []
  let standing = 0
  while (left.length > 0) {
    const tied = left.filter((step) => step.at === left[0]!.at)
    const succeeded = (refund: FoldedRefund) => steps.some((step) => step.refund === refund)
    const next =
      tied.find((step) => step.by === 1 && standing + step.refund.amount <= total) ??
      tied.find((step) => step.by === -1 && succeeded(step.refund)) ??
      tied[0]!
    left.splice(left.indexOf(next), 1)
    standing += next.by * next.refund.amount
    steps.push(next)
  }
  return steps
}

type Key = Pick<FeeChange, 'kind' | 'cause'>

const sameAs = (one: Key) => (other: Key) => one.kind === other.kind && one.cause === other.cause

/**
 * What is to be posted so that the ledger has these changes. One that was posted for another cause, because the facts
 * came in another order, stands for the last of its kind that is missing, so that nothing is credited twice.
 */
export function missingChanges(wanted: FeeChange[], posted: readonly Key[], now: number): FeeChange[] {
  const missing = wanted.filter((change) => !posted.some(sameAs(change)))
  const others = posted.filter((change) => !wanted.some(sameAs(change)))
  for (const other of others) {
    const at = missing.findLastIndex((change) => change.kind === other.kind)
    if (at >= 0) missing.splice(at, 1)
  }
  const difference = net([...posted, ...missing]) - net(wanted)
  const last = others.at(-1)?.cause ?? ''
  if (difference > 0) missing.push({ kind: 'reversal', cause: `${last}:taken back`, at: now })
  if (difference < 0) missing.push({ kind: 'credit', cause: `${last}:given again`, at: now })
  return missing
}

function net(changes: readonly Key[]): number {
  return changes.reduce((sum, { kind }) => sum + (kind === 'credit' ? 1 : -1), 0)
}
