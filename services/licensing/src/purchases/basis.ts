import { isLater, orderOf } from './purchase.ts'
import type { Fact, Purchase } from './purchase.ts'

/**
 * What the purchases of a licence call for, whatever the vendor and the catalog do with it. That an end has passed, and
 * no other purchase stands, does not change it: such a licence is the sweep's to expire.
 */
export type Calls = 'active' | 'downgraded' | 'payment_failed' | 'dispute_inquiry' | 'expired' | 'revoked'

/** What a licence rests on. */
export interface Basis {
  /** The latest purchase that stands; where none does, the one that stood last. */
  current: Purchase
  stands: boolean
  calls: Calls
}

// What comes first within one tick of the processor's clock, which counts in seconds.
const kinds = [
  'landed',
  'renewed',
  'paymentsFailed',
  'inquiryOpened',
  'partlyRefunded',
  'inquiryClosed',
  'ended',
  'fell',
  'reactivated',
] as const

/** The tick of the processor's clock, in milliseconds. */
const tick = 1_000

interface Moment {
  /** Of the vendor's, there is none. */
  purchase: Purchase | undefined
  kind: (typeof kinds)[number]
  at: number
  cause: string
}

/**
 * Decisions 7, "What a licence rests on": goes through all that happened to the purchases of a licence in the order of
 * the processor's clock. So the outcome depends on what is known, and not on the order in which it became known.
 *
 * @param now milliseconds; ends after it are still to come
 */
export function basisOf(
  purchases: readonly Purchase[],
  facts: readonly Fact[],
  reactivatedAt: Date | null,
  now: number,
): Basis {
  const standing = new Set<Purchase>()
  let current: Purchase | undefined
  let calls: Calls = 'active'
  let inDispute: Purchase | undefined
  const moments = momentsOf(purchases, facts, now)
  if (reactivatedAt) {
    moments.push({ purchase: undefined, kind: 'reactivated', at: reactivatedAt.getTime(), cause: '' })
  }
  for (const { purchase, kind } of moments.sort(inOrder)) {
    if (!purchase) {
      if (calls === 'payment_failed' || calls === 'dispute_inquiry') calls = 'active'
      inDispute = undefined
      continue
    }
    switch (kind) {
      case 'landed': {
        const stood = current !== undefined && standing.has(current)
        standing.add(purchase)
        if (latestOf(standing) !== purchase) break
        current = purchase
        // Decisions 4: a payment lifts no inquiry.
        if (calls !== 'dispute_inquiry' || !stood) calls = 'active'
        break
      }
      case 'ended':
      case 'fell': {
        standing.delete(purchase)
        if (current !== purchase) break
        current = latestOf(standing) ?? purchase
        if (current !== purchase) calls = 'active'
        else if (kind === 'fell') calls = purchase.given_back ? 'revoked' : 'expired'
        break
      }
      case 'inquiryClosed': {
        if (calls === 'dispute_inquiry' && inDispute === purchase) calls = 'active'
        break
      }
      default: {
        if (current !== purchase) break
        // Interface 3.1: a partial refund downgrades from any state.
        if (!standing.has(purchase) && kind !== 'partlyRefunded') break
        calls = afterFact(calls, kind)
        if (kind === 'inquiryOpened' && calls === 'dispute_inquiry') inDispute ??= purchase
      }
    }
    if (calls !== 'dispute_inquiry') inDispute = undefined
  }
  return { current: current!, stands: standing.has(current!), calls }
}

function afterFact(
  calls: Calls,
  kind: Exclude<Moment['kind'], 'landed' | 'ended' | 'fell' | 'inquiryClosed'>,
): Calls {
  switch (kind) {
    case 'renewed':
      return calls === 'payment_failed' || calls === 'downgraded' ? 'active' : calls
    case 'paymentsFailed':
      return calls === 'active' ? 'payment_failed' : calls
    case 'inquiryOpened':
      return calls === 'active' ? 'dispute_inquiry' : calls
    case 'partlyRefunded':
      return calls === 'revoked' ? calls : 'downgraded'
    case 'reactivated':
      return calls
  }
}

function latestOf(standing: ReadonlySet<Purchase>): Purchase | undefined {
  let latest: Purchase | undefined
  for (const purchase of standing) if (!latest || isLater(purchase, latest)) latest = purchase
  return latest
}

function momentsOf(purchases: readonly Purchase[], facts: readonly Fact[], now: number): Moment[] {
  const moments: Moment[] = []
  const byRef = new Map(purchases.map((purchase) => [purchase.purchase_ref, purchase]))
  for (const purchase of purchases) {
    const ordered = orderOf(purchase)
    moments.push({ purchase, kind: 'landed', at: ordered, cause: '' })
    for (const { kind, at } of endsOf(purchase, now)) {
      // An order that is known only roughly may be later than what followed it.
      moments.push({ purchase, kind, at: Math.max(at, ordered), cause: '' })
    }
  }
  for (const { purchase_ref, kind, cause, at } of facts) {
    const purchase = byRef.get(purchase_ref)
    if (!purchase || !isCalling(kind)) continue
    moments.push({ purchase, kind, cause, at: Math.max(at.getTime(), orderOf(purchase)) })
  }
  return moments
}

/**
 * When a purchase ceased to stand: with its own end, if that came first, and when it was given back or cancelled. An end
 * counts from the beginning of its second: the processor's clock cannot say which refund of that second came after it.
 */
function endsOf({ fell_at, ends_at }: Purchase, now: number): { kind: 'ended' | 'fell'; at: number }[] {
  const fell = fell_at?.getTime() ?? Number.POSITIVE_INFINITY
  const end = ends_at ? Math.floor(ends_at.getTime() / tick) * tick : Number.POSITIVE_INFINITY
  return [
    ...(end <= now && end < fell ? [{ kind: 'ended' as const, at: end }] : []),
    ...(fell_at ? [{ kind: 'fell' as const, at: fell }] : []),
  ]
}

function isCalling(
  kind: string,
): kind is Exclude<Moment['kind'], 'landed' | 'ended' | 'fell' | 'reactivated'> {
  return kinds.some((one) => one === kind)
}

function inOrder(one: Moment, other: Moment): number {
  if (one.at !== other.at) return one.at < other.at ? -1 : 1
  const rank = kinds.indexOf(one.kind) - kinds.indexOf(other.kind)
  if (rank !== 0) return rank
  if (one.purchase && other.purchase && one.purchase !== other.purchase) {
    return isLater(one.purchase, other.purchase) ? 1 : -1
  }
  return one.cause < other.cause ? -1 : Number(one.cause > other.cause)
}
