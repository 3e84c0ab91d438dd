import type { CauseKind } from './effect.ts'

/** Something that a licence may rest on, as the table `purchases` has it. */
export interface Purchase {
  application_id: string
  purchase_ref: string
  account_id: string
  licence_id: string
  /** Null: what the licence was issued or imported with, which comes before all others. */
  ordered_at: Date | null
  plan_id: string
  snapshot_id: string
  /** Null: it never ends by time. */
  ends_at: Date | null
  /** The same before all renewals; the end also as the vendor last set it. */
  landed_plan_id: string
  landed_snapshot_id: string
  landed_ends_at: Date | null
  fell_at: Date | null
  given_back: boolean
}

/** Something that happened to a purchase. */
export interface Fact {
  purchase_ref: string
  kind: CauseKind
  cause: string
  at: Date
  /** What a renewal brings. */
  ends_at: Date | null
  plan_id: string | null
  snapshot_id: string | null
}

/** Whether `one` is the later purchase: the one that a licence rests on where both stand. */
export function isLater(one: Purchase, other: Purchase): boolean {
  const [ofOne, ofOther] = [orderOf(one), orderOf(other)]
  return ofOne === ofOther ? one.purchase_ref > other.purchase_ref : ofOne > ofOther
}

/** Milliseconds. */
export function orderOf({ ordered_at }: Purchase): number {
  return ordered_at?.getTime() ?? Number.NEGATIVE_INFINITY
}
