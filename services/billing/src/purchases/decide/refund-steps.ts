import type { RefundKind } from '@licensing/proto/closed-sets'
import type { MergedRefund } from './merge-facts.ts'

/** A refund that succeeded, with the id of its row. */
export type CountedRefund = MergedRefund & { id: string; succeededAt: number }

interface Step {
  refund: CountedRefund
  /** 1: it succeeded; -1: it failed after that. */
  direction: 1 | -1
  at: number
  /** The total that the customer has got back after this step. */
  refunded: number
}

/**
 * Successes and failures of a charge's refunds, by the processor's clock, which counts in seconds. If steps have the same
 * second, they are ordered so that never more is refunded than was charged: a failure comes before a success that needs it.
 */
export function stepsOf(refunds: CountedRefund[], total: number): Step[] {
  const remaining: Omit<Step, 'refunded'>[] = refunds
    .flatMap((refund) => {
      const { succeededAt: succeeded } = refund
      const success = { refund, direction: 1 as const, at: succeeded }
      if (refund.status !== 'failed') return [success]
      const failedAt = Math.max(succeeded, refund.failedAt ?? succeeded)
      return [success, { refund, direction: -1 as const, at: failedAt }]
    })
    .sort(
      (a, b) =>
        a.at - b.at ||
        Number(a.refund.status !== 'failed') - Number(b.refund.status !== 'failed') ||
        b.direction - a.direction ||
        (a.refund.ref < b.refund.ref ? -1 : 1),
    )
  const steps: Step[] = []
  let refunded = 0
  while (remaining.length > 0) {
    const sameTime = remaining.filter((step) => step.at === remaining[0]!.at)
    const succeeded = (refund: CountedRefund) => steps.some((step) => step.refund === refund)
    const next =
      sameTime.find((step) => step.direction === 1 && refunded + step.refund.amount <= total) ??
      sameTime.find((step) => step.direction === -1 && succeeded(step.refund)) ??
      sameTime[0]!
    remaining.splice(remaining.indexOf(next), 1)
    refunded += next.direction * next.refund.amount
    steps.push({ ...next, refunded })
  }
  return steps
}

/** The kind of a refund in the list, in the effect for licensing and in the vendor's event. */
export interface TimedKind {
  kind: RefundKind
  /** When it took effect. */
  at: number
}

/**
 * The kind of each refund, by its id. The refund that completes the amount of the charge is the full refund. If its effect
 * was decided as a partial refund, because an earlier refund was not known then, the earlier refund becomes the full one:
 * a charge that is refunded completely has one full refund, in whatever order its refunds become known.
 *
 * @param decided kinds of refunds whose effects were decided: they do not change
 */
export function kindsOf(
  refunds: CountedRefund[],
  total: number,
  decided: ReadonlyMap<string, RefundKind>,
): Map<string, TimedKind> {
  const kinds = new Map<string, TimedKind>()
  const open: CountedRefund[] = []
  for (const { refund, direction, at, refunded } of stepsOf(refunds, total)) {
    if (direction === -1) continue
    const kind = refunded >= total ? 'full_refund' : 'partial_refund'
    const decidedKind = decided.get(refund.id)
    kinds.set(refund.id, { kind: decidedKind ?? kind, at })
    if (kind === 'partial_refund') {
      if (decidedKind === undefined) open.push(refund)
    } else if (decidedKind === 'partial_refund') {
      const other = open.pop()
      if (other) kinds.set(other.id, { kind, at })
    }
  }
  return kinds
}
