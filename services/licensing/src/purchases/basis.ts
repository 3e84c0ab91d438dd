import type { EffectKind } from './effect.ts'
import { isLater, orderOf } from './purchase.ts'
import type { Purchase, RecordedEffect } from './purchase.ts'

/**
 * The effect that decides which status the purchases of a licence require. `paid`: the purchases do not prevent the licence
 * from being active. It may still have ended; then the sweep expires it.
 */
export type DecisiveEffect = Exclude<EffectKind, 'renewed' | 'inquiry_closed' | UnrankedEffect>

/** Effects that change no status. */
type UnrankedEffect = 'renewal_stopped' | 'renewal_resumed' | 'order_corrected'

/** The purchase that a licence rests on, and the effect that decides about its status. */
export interface Basis {
  /** The latest valid purchase. If no purchase is valid, the purchase that was valid last. */
  current: Purchase
  isValid: boolean
  decisive: DecisiveEffect
}

// The processor's clock counts in seconds. Moments of the same time are sorted in this order.
const rank = {
  paid: 0,
  renewed: 1,
  payment_failed: 2,
  inquiry_opened: 3,
  partially_refunded: 4,
  inquiry_closed: 5,
  // The purchase's end has passed.
  ended: 6,
  canceled: 7,
  refunded: 7,
  charged_back: 7,
  // The vendor reactivated the licence.
  reactivated: 8,
} as const satisfies Record<Exclude<EffectKind, UnrankedEffect> | 'ended' | 'reactivated', number>

/** The tick of the processor's clock, in milliseconds. */
const clockResolutionMs = 1_000

type KindOfPurchase = Exclude<keyof typeof rank, 'reactivated'>

type PurchaseEvent = { at: number; cause: string } & (
  { kind: KindOfPurchase; purchase: Purchase } | { kind: 'reactivated'; purchase: undefined }
)

/** Effects on the current purchase that change which effect is decisive, if it was one of these. */
const transitions = {
  renewed: { from: ['payment_failed', 'partially_refunded'], to: 'paid' },
  payment_failed: { from: ['paid'], to: 'payment_failed' },
  inquiry_opened: { from: ['paid'], to: 'inquiry_opened' },
  // Interface 3.1: a partial refund downgrades from every state but revoked.
  partially_refunded: {
    from: ['paid', 'payment_failed', 'inquiry_opened', 'canceled'],
    to: 'partially_refunded',
  },
} as const satisfies Partial<Record<EffectKind, { from: readonly DecisiveEffect[]; to: DecisiveEffect }>>

type TransitionKind = keyof typeof transitions

/**
 * Goes through all events of the purchases of a licence in the order of the processor's clock (decisions 7, "What a
 * licence rests on"). So the result does not depend on the order in which the events became known.
 *
 * @param now milliseconds; an end after it has not passed yet
 */
export function basisOf(
  purchases: readonly Purchase[],
  effects: readonly RecordedEffect[],
  reactivatedAt: Date | null,
  now: number,
): Basis {
  const valid = new Set<Purchase>()
  let current: Purchase | undefined
  let decisive: DecisiveEffect = 'paid'
  let inDispute: Purchase | undefined
  const events = eventsOf(purchases, effects, now)
  if (reactivatedAt) {
    events.push({ purchase: undefined, kind: 'reactivated', at: reactivatedAt.getTime(), cause: '' })
  }
  for (const { purchase, kind } of events.sort(compareEvents)) {
    switch (kind) {
      case 'paid': {
        const wasValid = current !== undefined && valid.has(current)
        valid.add(purchase)
        if (latestOf(valid) !== purchase) break
        current = purchase
        // Decisions 4: a payment does not end an inquiry.
        if (decisive !== 'inquiry_opened' || !wasValid) decisive = 'paid'
        break
      }
      case 'ended':
      case 'canceled':
      case 'refunded':
      case 'charged_back': {
        valid.delete(purchase)
        if (current !== purchase) break
        current = latestOf(valid) ?? purchase
        if (current !== purchase) decisive = 'paid'
        else if (kind !== 'ended') decisive = kind
        break
      }
      case 'inquiry_closed': {
        if (decisive === 'inquiry_opened' && inDispute === purchase) decisive = 'paid'
        break
      }
      case 'reactivated': {
        if (decisive === 'payment_failed' || decisive === 'inquiry_opened') decisive = 'paid'
        break
      }
      default: {
        if (current !== purchase) break
        if (!valid.has(purchase) && kind !== 'partially_refunded') break
        const { from, to } = transitions[kind]
        if (from.some((one) => one === decisive)) decisive = to
        if (kind === 'inquiry_opened' && decisive === 'inquiry_opened') inDispute ??= purchase
      }
    }
    if (decisive !== 'inquiry_opened') inDispute = undefined
  }
  return { current: current!, isValid: valid.has(current!), decisive }
}

function latestOf(purchases: ReadonlySet<Purchase>): Purchase | undefined {
  let latest: Purchase | undefined
  for (const purchase of purchases) if (!latest || isLater(purchase, latest)) latest = purchase
  return latest
}

function eventsOf(
  purchases: readonly Purchase[],
  effects: readonly RecordedEffect[],
  now: number,
): PurchaseEvent[] {
  const events: PurchaseEvent[] = []
  const byRef = new Map(purchases.map((purchase) => [purchase.purchase_ref, purchase]))
  for (const purchase of purchases) {
    const ordered = orderOf(purchase)
    events.push({ purchase, kind: 'paid', at: ordered, cause: '' })
    for (const { kind, at } of endsOf(purchase, effects, now)) {
      // The time of an order may be known only approximately: then an effect may seem to be earlier than the order.
      events.push({ purchase, kind, at: Math.max(at, ordered), cause: '' })
    }
  }
  for (const { purchase_ref, kind, cause, at } of effects) {
    const purchase = byRef.get(purchase_ref)
    if (!purchase || !(isTransition(kind) || kind === 'inquiry_closed')) continue
    events.push({ purchase, kind, cause, at: Math.max(at.getTime(), orderOf(purchase)) })
  }
  return events
}

function isTransition(kind: EffectKind): kind is TransitionKind {
  return Object.hasOwn(transitions, kind)
}

/**
 * When a purchase stopped being valid: at its own end, if that came first, and when it was refunded in full, charged back
 * or canceled. An end counts from the start of its second: the processor's clock cannot say which refund of that second
 * came after it.
 */
function endsOf(
  { purchase_ref, terminated_at, money_returned, ends_at }: Purchase,
  effects: readonly RecordedEffect[],
  now: number,
): { kind: KindOfPurchase; at: number }[] {
  const terminated = terminated_at?.getTime() ?? Number.POSITIVE_INFINITY
  const end = ends_at
    ? Math.floor(ends_at.getTime() / clockResolutionMs) * clockResolutionMs
    : Number.POSITIVE_INFINITY
  const ended = end <= now && end < terminated ? [{ kind: 'ended' as const, at: end }] : []
  if (!terminated_at) return ended
  const isRefunded = effects.some((one) => one.purchase_ref === purchase_ref && one.kind === 'refunded')
  const kind = !money_returned ? 'canceled' : isRefunded ? 'refunded' : 'charged_back'
  return [...ended, { kind, at: terminated }]
}

function compareEvents(one: PurchaseEvent, other: PurchaseEvent): number {
  if (one.at !== other.at) return one.at < other.at ? -1 : 1
  const difference = rank[one.kind] - rank[other.kind]
  if (difference !== 0) return difference
  if (one.purchase && other.purchase && one.purchase !== other.purchase) {
    return isLater(one.purchase, other.purchase) ? 1 : -1
  }
  return one.cause < other.cause ? -1 : Number(one.cause > other.cause)
}
