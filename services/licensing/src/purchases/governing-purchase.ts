import type { PurchaseState } from '../lifecycle/licence.ts'
import { fellAt, inOrderOfTime, terminatedAt } from './purchase.ts'
import type { Purchase } from './purchase.ts'

/** The purchase that governs a licence, and what the purchases call for. */
export interface Governing {
  /** The latest valid purchase. If no purchase is valid, the purchase that was valid last. */
  current: Purchase
  isValid: boolean
  state: PurchaseState
  /** The state without a cancellation. */
  uncancelled: PurchaseState
}

/**
 * An inquiry suspends a licence also while it has later purchases, if the inquiry is about one of its latest purchases. The
 * bound lets a transaction read only these, however many the licence has.
 */
export const recentPurchases = 20

/**
 * Finds the purchase that governs a licence (docs/guides/payments.md, "Several purchases of one licence"). The result does
 * not depend on the order in which the events became known: each purchase has only the times of its events by the
 * processor's clock. The purchases that `findDecidingPurchases` reads give the same result as all purchases of the licence.
 *
 * @param now milliseconds; an end after it has not passed yet
 */
export function governingPurchase(
  purchases: readonly Purchase[],
  reactivatedAt: Date | null,
  now: number,
): Governing {
  const timeline: Timeline = {
    entries: inOrderOfTime(purchases).map((purchase) => {
      return { purchase, ordered: purchase.ordered_at.getTime(), fell: fellAt(purchase, now) }
    }),
    reactivated: reactivatedAt?.getTime() ?? -Infinity,
  }
  const { entries } = timeline
  const latestValid = entries.findLastIndex(({ fell }) => fell === Infinity)
  const at = latestValid === -1 ? lastFallen(entries) : latestValid
  const { purchase: current } = entries[at]!
  const uncancelled = current.money_returned ? 'refunded' : (problemOf(timeline, at)?.kind ?? 'paid')
  const isCancelled = terminatedAt(current, now) < Infinity && !current.money_returned
  const state = isCancelled ? 'cancelled' : uncancelled
  return { current, isValid: latestValid !== -1, state, uncancelled }
}

interface Timeline {
  entries: { purchase: Purchase; ordered: number; fell: number }[]
  /** When the vendor reactivated the licence: earlier failures and inquiries do not count. */
  reactivated: number
}

/** If several purchases fell in the same moment, the latest one counts. */
function lastFallen(entries: Timeline['entries']): number {
  const last = Math.max(...entries.map(({ fell }) => fell))
  return entries.findLastIndex(({ fell }) => fell === last)
}

interface Problem {
  kind: 'payment_failed' | 'inquiry_opened' | 'partially_refunded'
  since: number
  /** The place of the purchase that the problem is about. */
  about: number
}

/**
 * The problem that the licence has while the purchase at this place governs it, because of this purchase or an inquiry about
 * an earlier one.
 *
 * @param next the place of the purchase that replaces it; by default it is not replaced
 */
function problemOf(timeline: Timeline, place: number, next?: number): Problem | undefined {
  const { entries, reactivated } = timeline
  const { purchase, ordered, fell } = entries[place]!
  // It governs from its order or, if there were later purchases, since the last of these fell. The processor's clock counts
  // in seconds: an event of the same second is earlier than a fall and later than an order.
  const later = entries.slice(place + 1, next)
  const from = later.length > 0 ? Math.max(...later.map((one) => one.fell)) : ordered
  const until = next === undefined ? Infinity : entries[next]!.ordered
  const governedAt = (time: Date | null): number | undefined => {
    if (!time) return undefined
    const at = Math.max(time.getTime(), ordered)
    return (later.length > 0 ? at > from : at >= from) && at < until ? at : undefined
  }
  const renewed = purchase.renewed_at?.getTime() ?? -Infinity
  const refundedAt = governedAt(purchase.partially_refunded_at)
  if (refundedAt !== undefined && renewed <= (purchase.partially_refunded_since?.getTime() ?? refundedAt)) {
    return { kind: 'partially_refunded', since: refundedAt, about: place }
  }
  // After a renewal that was paid before it, the refund was of an earlier cycle, and so has no effect.
  const refunded = refundedAt !== undefined && renewed > refundedAt ? refundedAt : undefined
  const counts = (at: number | undefined): at is number =>
    at !== undefined && at > reactivated && at <= fell && at > (refunded ?? -Infinity)
  const problems: Problem[] = []
  const failed = governedAt(purchase.failed_at)
  if (counts(failed) && renewed <= (purchase.failed_since?.getTime() ?? failed))
    problems.push({ kind: 'payment_failed', since: failed, about: place })
  const inquiry = [purchase.first_inquiry_at, purchase.inquiry_at]
    .map(governedAt)
    .find((at) => counts(at) && isOpen(purchase, at))
  if (inquiry !== undefined) problems.push({ kind: 'inquiry_opened', since: inquiry, about: place })
  const inherited =
    later.length === 0 && refunded === undefined ? inheritedInquiry(timeline, place) : undefined
  if (inherited) problems.push(inherited)
  return problems.sort((a, b) => a.since - b.since)[0]
}

/** A payment does not end an inquiry about the purchase that governed the licence before. */
function inheritedInquiry(timeline: Timeline, place: number): Problem | undefined {
  const { entries } = timeline
  const former = entries.slice(0, place).findLastIndex(({ fell }) => fell >= entries[place]!.ordered)
  if (former < Math.max(0, entries.length - recentPurchases)) return undefined
  const problem = problemOf(timeline, former, place)
  return problem?.kind === 'inquiry_opened' ? problem : undefined
}

function isOpen({ inquiry_closed_at: closed }: Purchase, openedAt: number): boolean {
  return !closed || closed.getTime() < openedAt
}
