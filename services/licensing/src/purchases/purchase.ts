import type { Metadata } from '@licensing/proto/metadata'
import type { EffectKind } from './effect.ts'

/** A purchase that a licence may rest on, as a row of the table `purchases`. */
export interface Purchase {
  application_id: string
  purchase_ref: string
  account_id: string
  licence_id: string
  /** Null for the terms on which the licence was issued or imported: they come before all purchases. */
  ordered_at: Date | null
  plan_id: string
  snapshot_id: string
  /** Null: the purchase has no end date. */
  ends_at: Date | null
  /** Plan and end as they were bought, before all renewals. If the vendor has set another end, that end. */
  bought_plan_id: string
  bought_snapshot_id: string
  bought_ends_at: Date | null
  /** When it was refunded in full, charged back or canceled. */
  terminated_at: Date | null
  /** Whether it was refunded in full or charged back. */
  money_returned: boolean
  /** Whether it is a subscription that the processor will charge again. */
  renews: boolean
  /** Until when its first payment includes updates. Null: the payment does not set this. */
  updates_until: Date | null
  /** Entries that its first payment brings. */
  metadata: Metadata
}

/** An effect as a row of the table `purchase_effects`. */
export interface RecordedEffect {
  purchase_ref: string
  kind: Exclude<EffectKind, 'paid'>
  cause: string
  at: Date
  /** The end, plan and time of updates that a renewal gives. */
  ends_at: Date | null
  plan_id: string | null
  snapshot_id: string | null
  updates_until: Date | null
}

/** Whether `one` is the later purchase. Of several valid purchases, a licence rests on the latest. */
export function isLater(one: Purchase, other: Purchase): boolean {
  const [ofOne, ofOther] = [orderOf(one), orderOf(other)]
  return ofOne === ofOther ? one.purchase_ref > other.purchase_ref : ofOne > ofOther
}

/** Purchases in the order of the processor's clock. */
export function inOrderOfTime(purchases: readonly Purchase[]): Purchase[] {
  return purchases.toSorted((a, b) => (isLater(a, b) ? 1 : -1))
}

/** The time of the order in milliseconds. */
export function orderOf({ ordered_at }: Purchase): number {
  return ordered_at?.getTime() ?? Number.NEGATIVE_INFINITY
}
