import type { PurchaseEffectKind } from '@licensing/proto/closed-sets'
import type { Metadata } from '@licensing/proto/metadata'

/** An effect of a purchase, as it is sent to licensing. */
export interface Effect {
  /** Null if no licence changes and only the vendor is notified. */
  kind: PurchaseEffectKind | null
  /** Business key of the invoice, refund, dispute or subscription. */
  cause: string
  at: Date
  ordered_at: Date
  plan_id: string | null
  external_ref: string | null
  ends_at: Date | null
  /** Null if the payment does not change the end of updates. */
  updates_until: Date | null
  /** A renewal after this time ends the effect of a failure or a partial refund, also one that becomes known later. */
  since: Date | null
  metadata: Metadata | null
  /** Whether `paid` begins a subscription. */
  renews: boolean
  refund_id: string | null
}

/** `refused`: the effect, and all later effects of its purchase, wait for a replay. */
export const effectStates = ['waiting', 'refused', 'done'] as const

export type EffectState = (typeof effectStates)[number]

export interface NewEffect extends Effect {
  effect_key: string
  state: Exclude<EffectState, 'done'>
}

interface Meaning {
  /** Orders effects of the same time, because a later one can depend on an earlier one. */
  rank: number
  /** How it ends the purchase: the customer has the money back, which revokes the licence permanently, or it was cancelled. */
  end?: 'money_returned' | 'cancelled'
}

/** The meaning of each effect in billing. */
export const effectMeanings: Record<PurchaseEffectKind, Meaning> = {
  paid: { rank: 0 },
  order_corrected: { rank: 1 },
  renewed: { rank: 2 },
  payment_failed: { rank: 3 },
  inquiry_opened: { rank: 4 },
  partially_refunded: { rank: 5 },
  refunded: { rank: 6, end: 'money_returned' },
  charged_back: { rank: 7, end: 'money_returned' },
  inquiry_closed: { rank: 8 },
  renewal_stopped: { rank: 9 },
  renewal_resumed: { rank: 9 },
  cancelled: { rank: 10, end: 'cancelled' },
}

/** Whether the effect ends its purchase. */
export function isEnd({ kind }: Pick<Effect, 'kind'>): boolean {
  return kind !== null && effectMeanings[kind].end !== undefined
}

/** Whether the effect revokes the licence permanently. */
export function isRevocation({ kind }: Pick<Effect, 'kind'>): boolean {
  return kind !== null && effectMeanings[kind].end === 'money_returned'
}

export function isSale(purchaseRef: string): boolean {
  return purchaseRef.startsWith('sale_')
}
