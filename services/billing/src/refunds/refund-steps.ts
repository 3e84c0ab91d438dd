import type { RefundLane } from '@licensing/proto/closed-sets'
import type { FoldedRefund } from '../purchases/decide/merge-facts.ts'

/** A refund that succeeded, with the id of its row. */
export type CountedRefund = FoldedRefund & { id: string; succeededAt: number }

interface Step {
  refund: CountedRefund
  /** 1: it succeeded; -1: it failed after that. */
  by: 1 | -1
  at: number
  /** What the customer has been given back after this step. */
  standing: number
}

/**
 * Successes and failures of a charge's refunds by the processor's clock. It counts in seconds: within one, no more is
 * refunded than was charged, so that what has to fail before another can succeed does.
 */
export function stepsOf(refunds: CountedRefund[], total: number): Step[] {
  const left: Omit<Step, 'standing'>[] = refunds
    .flatMap((refund) => {
      const { succeededAt: succeeded } = refund
      const success = { refund, by: 1 as const, at: succeeded }
      if (refund.status !== 'failed') return [success]
      const failedAt = Math.max(succeeded, refund.failedAt ?? succeeded)
      return [success, { refund, by: -1 as const, at: failedAt }]
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
    const succeeded = (refund: CountedRefund) => steps.some((step) => step.refund === refund)
    const next =
      tied.find((step) => step.by === 1 && standing + step.refund.amount <= total) ??
      tied.find((step) => step.by === -1 && succeeded(step.refund)) ??
      tied[0]!
    left.splice(left.indexOf(next), 1)
    standing += next.by * next.refund.amount
    steps.push({ ...next, standing })
  }
  return steps
}

/** What a refund is: listed, sent to licensing and reported to the vendor as this. */
export interface Part {
  lane: RefundLane
  /** When it took effect. */
  at: number
}

/**
 * The part of each refund, by its id. The refund that completes the charge is the full one. If it was decided as a partial
 * one, because an earlier refund was not known by then, that earlier one takes its place: a charge that was given back in
 * full has a full refund, in whatever order its refunds became known.
 *
 * @param decided lanes of refunds whose effects have been decided: they never change
 */
export function partsOf(
  refunds: CountedRefund[],
  total: number,
  decided: ReadonlyMap<string, RefundLane>,
): Map<string, Part> {
  const parts = new Map<string, Part>()
  const open: CountedRefund[] = []
  for (const { refund, by, at, standing } of stepsOf(refunds, total)) {
    if (by === -1) continue
    const lane = standing >= total ? 'full_refund' : 'partial_refund'
    const before = decided.get(refund.id)
    parts.set(refund.id, { lane: before ?? lane, at })
    if (lane === 'partial_refund') {
      if (before === undefined) open.push(refund)
    } else if (before === 'partial_refund') {
      const other = open.pop()
      if (other) parts.set(other.id, { lane, at })
    }
  }
  return parts
}
