import type { LicenceStateRow } from '../lifecycle/licence-queries.ts'
import { rowColumns } from '../lifecycle/licence-row.ts'
import type { LicenceRow } from '../lifecycle/licence-row.ts'
import { payable } from '../lifecycle/licence.ts'
import type { PlanRow } from '../plans/plan-queries.ts'
import { effectMeanings } from './effect.ts'
import type { LaterEffect } from './effect.ts'
import { governingPurchase } from './governing-purchase.ts'
import type { Governing } from './governing-purchase.ts'
import type { Bringing, PaidEntry } from './paid-metadata.ts'
import { beforeAllPurchases } from './purchase.ts'
import type { Purchase, RecordedEffect } from './purchase.ts'

export type LockedLicence = LicenceStateRow & {
  snapshot_id: string
  governed_by: string | null
  reactivated_at: Date | null
  /** The latest known event of its purchases, by the processor's clock. */
  latest_event_at: Date | null
  /** Whether `max_activations` is the limit that it got as a trial. */
  trial_limit: boolean
}

const otherColumns: Record<Exclude<keyof LockedLicence, keyof LicenceRow>, true> = {
  hold: true,
  purchase: true,
  snapshot_id: true,
  governed_by: true,
  reactivated_at: true,
  latest_event_at: true,
  trial_limit: true,
}
export const lockedColumns: readonly string[] = [...rowColumns, ...Object.keys(otherColumns)]

/**
 * A locked licence with those of its purchases, renewals and entries that decide about the effects of a transaction, out of any
 * number of them.
 */
export interface PurchasedLicence {
  licence: LockedLicence
  purchases: Purchase[]
  /** Effects that were recorded before, by `effectName`. */
  known: Set<string>
  renewals: RecordedEffect[]
  entries: PaidEntry[]
  /** Purchases that bring metadata, near those whose order is corrected. */
  bringing: Bringing[]
}

/** A licence without purchases. */
export function withoutPurchases(licence: LockedLicence): PurchasedLicence {
  return { licence, purchases: [], known: new Set(), renewals: [], entries: [], bringing: [] }
}

/** Whether a payment of the customer changes this licence; otherwise it creates another one. */
export const takesPayments = ({ licence }: PurchasedLicence): boolean => payable.includes(licence.status)

export function purchaseOf({ purchases }: PurchasedLicence, ref: string): Purchase | undefined {
  return purchases.find((purchase) => purchase.purchase_ref === ref)
}

/** The purchase that governed the licence when it was last written. */
export function formerGoverning({ licence, purchases }: PurchasedLicence): Purchase | undefined {
  return purchases.find((purchase) => purchase.purchase_ref === licence.governed_by) ?? purchases[0]
}

const nothingHappened = {
  end_revision: 0,
  terminated_at: null,
  money_returned: false,
  renewed_at: null,
  failed_at: null,
  partially_refunded_at: null,
  failed_since: null,
  partially_refunded_since: null,
  first_inquiry_at: null,
  inquiry_at: null,
  inquiry_closed_at: null,
  renews_since: null,
  cancelled_at: null,
  cancelled_to: null,
} satisfies Partial<Purchase>

type Sold = Pick<
  Purchase,
  | 'application_id'
  | 'purchase_ref'
  | 'account_id'
  | 'licence_id'
  | 'ordered_at'
  | 'plan_id'
  | 'snapshot_id'
  | 'ends_at'
  | 'renews'
  | 'updates_until'
  | 'metadata'
>

/** A purchase when it is made. */
export function newPurchase(sold: Sold): Purchase {
  return {
    ...sold,
    bought_plan_id: sold.plan_id,
    bought_snapshot_id: sold.snapshot_id,
    bought_ends_at: sold.ends_at,
    paid_updates_until: sold.updates_until,
    ...nothingHappened,
  }
}

/** The terms on which a licence was issued or imported, as a purchase. Its row is inserted with the first payment. */
export function issuedTerms(licence: LockedLicence): Purchase {
  return newPurchase({
    application_id: licence.application_id,
    purchase_ref: licence.id,
    account_id: licence.account_id,
    licence_id: licence.id,
    ordered_at: beforeAllPurchases,
    plan_id: licence.plan_id,
    snapshot_id: licence.snapshot_id,
    ends_at: licence.expires_on,
    renews: false,
    updates_until: licence.updates_until,
    metadata: licence.metadata,
  })
}

/** The purchase that governs the licence at a time. The licence must have at least one purchase. */
export function governingAt({ licence, purchases }: PurchasedLicence, now: Date): Governing {
  return governingPurchase(purchases, licence.reactivated_at, now.getTime())
}

/** The later of two times. */
export const later = (one: Date | null, other: Date | null): Date | null =>
  one && (!other || one > other) ? one : other
const earlier = (one: Date | null, other: Date): Date => (one && one < other ? one : other)

/** A time that is later than all known events of the licence's purchases, and not before `now`. */
export function timeAfterKnownEvents({ licence }: PurchasedLicence, now: Date): Date {
  return new Date(Math.max(now.getTime(), (licence.latest_event_at?.getTime() ?? 0) + 1))
}

export const effectName = (purchaseRef: string, { kind, cause }: { kind: string; cause: string }) =>
  `${purchaseRef} ${kind} ${cause}`

/**
 * Adds an effect to the purchase. The result is the same in whatever order effects become known.
 *
 * @param plan the plan of a renewal
 * @returns the row of the effect
 */
export function recordEffect(
  { known, renewals }: PurchasedLicence,
  purchase: Purchase,
  effect: LaterEffect,
  plan: PlanRow | undefined,
): RecordedEffect {
  const { kind, cause, at } = effect
  const recorded: RecordedEffect = {
    purchase_ref: purchase.purchase_ref,
    kind,
    cause,
    at,
    ends_at: kind === 'renewed' || kind === 'cancelled' ? (effect.endsAt ?? null) : null,
    end_revision: purchase.end_revision,
    plan_id: plan?.id ?? null,
    // Renewals on the same plan keep its snapshot.
    snapshot_id: plan?.id === purchase.plan_id ? purchase.snapshot_id : (plan?.snapshot_id ?? null),
    updates_until: kind === 'renewed' ? effect.updatesUntil : null,
  }
  known.add(effectName(purchase.purchase_ref, effect))
  if (kind === 'renewed') renewals.push(recorded)
  purchase.ordered_at = effect.orderedAt
  const { latest, since, first, ends, renews } = effectMeanings[kind]
  if (latest) purchase[latest] = later(purchase[latest], at)
  if (since) purchase[since] = later(purchase[since], effect.since ?? at)
  if (first) purchase[first] = earlier(purchase[first], at)
  if (ends) {
    const end = kind === 'cancelled' ? (effect.endsAt ?? at) : at
    purchase.terminated_at = earlier(purchase.terminated_at, end)
  }
  if (ends === 'money_returned') purchase.money_returned = true
  if (kind === 'cancelled' && !(purchase.cancelled_at && purchase.cancelled_at <= at)) {
    Object.assign(purchase, { cancelled_at: at, cancelled_to: effect.endsAt ?? null })
  }
  if (renews !== undefined) changeRenewal(purchase, renews, at)
  if (purchase.cancelled_at) purchase.renews = false
  if (ends || kind === 'renewed') applyRenewals(purchase, renewals)
  return recorded
}

/** Stops or resumes the renewals: the latest of these effects counts. */
function changeRenewal(purchase: Purchase, renews: boolean, at: Date): void {
  const { renews_since: since } = purchase
  if (since && (at < since || (renews && at.getTime() === since.getTime()))) return
  Object.assign(purchase, { renews, renews_since: at })
}

/** Whether a renewal of this time counts: after the purchase was refunded or cancelled it changes nothing. */
export function mayRenewAt({ terminated_at: terminated, cancelled_at }: Purchase, at: Date): boolean {
  // A later end that the vendor gave has undone the cancellation.
  const cancelled = terminated && cancelled_at
  return (!terminated || at <= terminated) && (!cancelled || at <= cancelled)
}

/** Sets what the purchase's renewals give, in whatever order they became known: its end, its plan and its updates. */
function applyRenewals(purchase: Purchase, renewals: readonly RecordedEffect[]): void {
  const { end_revision, plan_id: former } = purchase
  const own = renewals
    .filter(({ purchase_ref, at }) => purchase_ref === purchase.purchase_ref && mayRenewAt(purchase, at))
    .sort((a, b) => a.at.getTime() - b.at.getTime() || (a.cause < b.cause ? -1 : 1))
  let end = purchase.bought_ends_at
  for (const renewal of own) {
    // A renewal never moves the end back.
    if (end && renewal.end_revision === end_revision) end = later(end, renewal.ends_at)
  }
  purchase.ends_at = purchase.cancelled_to ?? end
  purchase.paid_updates_until = own
    .map((renewal) => renewal.updates_until)
    .reduce(later, purchase.updates_until)
  if (purchase.terminated_at && purchase.cancelled_at) purchase.renewed_at = own.at(-1)?.at ?? null
  const last = own.findLast(({ plan_id }) => plan_id !== null)
  const plan_id = last?.plan_id ?? purchase.bought_plan_id
  if (plan_id === former) return
  Object.assign(purchase, { plan_id, snapshot_id: last?.snapshot_id ?? purchase.bought_snapshot_id })
}
