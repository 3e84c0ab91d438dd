import type { Subject } from './decision.ts'
import { ofKind, sortedBy } from './merge-facts.ts'
import type { RecordedFact } from './merge-facts.ts'

// The processor's clock counts in seconds. The number of earlier decisions orders decisions within a second. They come after
// the payments of that second.
const lastOfSecond = 998

/**
 * Whether the processor will charge the subscription again when the paid period ends, and since when. It will not if the
 * subscription is set to end by then. The time increases with each decision.
 *
 * @returns undefined if it was never set to end
 */
export function renewalOf({ history, invoices }: Subject): { renews: boolean; at: number } | undefined {
  const { facts } = history
  const changes = endChanges(facts)
  if (changes.length === 0) return undefined
  const endsAt = latestEnd(changes)
  const paidUntil = invoices.flatMap(({ periodEnd }) => periodEnd ?? [])
  const chargedAt = Math.max(0, ...invoices.map(({ paidAt }) => paidAt))
  const isLastPeriod = endsAt !== null && (paidUntil.length === 0 || endsAt <= Math.max(...paidUntil))
  // If the subscription was charged after that time, its end was postponed and the processor's event did not arrive.
  const ends = isLastPeriod && chargedAt < endsAt
  const at = Math.max(chargedAt, ...changes.map((change) => change.at))
  const decided = [...history.effects].filter((key) => key.startsWith('renewal_')).length
  return { renews: !ends, at: at + Math.min(invoices.length + decided, lastOfSecond) }
}

interface EndChange {
  at: number
  endsAt: number | null
  endsAtBefore: number | null
}

/** Changes that events reported. If there are none, the change in the processor's records. */
function endChanges(facts: RecordedFact[]): EndChange[] {
  const reported = ofKind(facts, 'end_scheduled')
  if (reported.length > 0) return sortedBy(reported, 'at', 'endsAt')
  return ofKind(facts, 'subscription').flatMap(({ endsAt, endSetAt }) =>
    endsAt === null || endSetAt === null ? [] : [{ at: endSetAt, endsAt, endsAtBefore: null }],
  )
}

/** If several changes have the same second, the last change is the one whose end no other change replaced. */
function latestEnd(changes: EndChange[]): number | null {
  let current: number | null = null
  for (const together of Map.groupBy(changes, ({ at }) => at).values()) {
    const ends = together.map(({ endsAt }) => endsAt)
    for (const { endsAtBefore } of together) {
      const at = ends.indexOf(endsAtBefore)
      if (at >= 0) ends.splice(at, 1)
    }
    if (ends.length > 0) current = ends[0]!
  }
  return current
}
