import type { Metadata } from '@licensing/proto/metadata'
import type { EffectKind } from './effect.ts'

/** A purchase that may govern a licence, as a row of the table `purchases`. */
export interface Purchase {
  application_id: string
  purchase_ref: string
  account_id: string
  licence_id: string
  /** `beforeAllPurchases` for the terms on which the licence was issued or imported. */
  ordered_at: Date
  plan_id: string
  snapshot_id: string
  /** Null: the purchase has no end date. */
  ends_at: Date | null
  /** Plan and end as they were bought, before all renewals. If the vendor has set another end, that end. */
  bought_plan_id: string
  bought_snapshot_id: string
  bought_ends_at: Date | null
  /** How often the vendor has set another end. Renewals that were recorded before do not move the end any more. */
  end_revision: number
  /** When it was refunded in full, charged back or cancelled. A cancellation may be for a time to come. */
  terminated_at: Date | null
  /** Whether it was refunded in full or charged back. */
  money_returned: boolean
  /** The latest renewal, the latest series of failed payments, and the latest partial refund. */
  renewed_at: Date | null
  failed_at: Date | null
  partially_refunded_at: Date | null
  /** A renewal after these times ends the effect of the failed payments and of the partial refund; null: after they happened. */
  failed_since: Date | null
  partially_refunded_since: Date | null
  /** The first and the latest inquiry, and the latest time at which an inquiry was closed. */
  first_inquiry_at: Date | null
  inquiry_at: Date | null
  inquiry_closed_at: Date | null
  /** Whether it is a subscription that the processor will charge again. */
  renews: boolean
  /** When the renewals were last stopped or resumed. */
  renews_since: Date | null
  /** When it was cancelled. It then never renews again. */
  cancelled_at: Date | null
  /** The end that its cancellation gives, whatever its renewals gave. */
  cancelled_to: Date | null
  /** Until when its first payment includes updates. Null: the payment does not set this. */
  updates_until: Date | null
  /** The latest time until which its first payment, or a renewal that counts, includes updates. */
  paid_updates_until: Date | null
  /** Entries that its first payment brings. They are read only for purchases that a transaction names. */
  metadata: Metadata
}

/** A renewal, or another effect that was recorded so that it is applied once, as a row of the table `purchase_effects`. */
export interface RecordedEffect {
  purchase_ref: string
  kind: Exclude<EffectKind, 'paid'>
  cause: string
  at: Date
  /** The end that a renewal or a cancellation gives, and the purchase's `end_revision` when it was recorded. */
  ends_at: Date | null
  end_revision: number
  /** The plan that a renewal gives. */
  plan_id: string | null
  snapshot_id: string | null
  /** Until when a renewal includes updates. */
  updates_until: Date | null
}

/** The earliest time that a protobuf timestamp can have. */
export const beforeAllPurchases = new Date('0001-01-01T00:00:00Z')

/** Whether `one` is the later purchase. If several purchases are valid, the latest governs the licence. */
export function isLater(one: Ordered, other: Ordered): boolean {
  const [ofOne, ofOther] = [one.ordered_at.getTime(), other.ordered_at.getTime()]
  return ofOne === ofOther ? one.purchase_ref > other.purchase_ref : ofOne > ofOther
}

/** The order of a purchase, by the processor's clock. */
export type Ordered = Pick<Purchase, 'ordered_at' | 'purchase_ref'>

/** Purchases in the order of the processor's clock. */
export function inOrderOfTime<T extends Ordered>(purchases: readonly T[]): T[] {
  return purchases.toSorted((a, b) => (isLater(a, b) ? 1 : -1))
}

/** The tick of the processor's clock, in milliseconds. */
const clockResolutionMs = 1_000

/**
 * When the purchase stopped being valid, in milliseconds: at its end, or when it was refunded in full, charged back or
 * cancelled, if that came first. Infinity: it is valid. An end counts from the start of its second, because the processor's
 * clock cannot say which refund of that second came after it. The time of an order may be known only approximately: then
 * something may seem to be earlier than the order. The column `falls_at` has the same rule.
 */
export function fellAt(purchase: Purchase, now: number): number {
  const { ordered_at, ends_at } = purchase
  const end = ends_at ? Math.floor(ends_at.getTime() / clockResolutionMs) * clockResolutionMs : Infinity
  const fell = Math.min(end <= now ? end : Infinity, terminatedAt(purchase, now))
  return Math.max(fell, ordered_at.getTime())
}

/** When the purchase was terminated, in milliseconds. Infinity: it was not, or it is cancelled for a time to come. */
export function terminatedAt({ terminated_at, cancelled_to, money_returned }: Purchase, now: number): number {
  const at = terminated_at?.getTime() ?? Infinity
  return cancelled_to && !money_returned && at > now ? Infinity : at
}
