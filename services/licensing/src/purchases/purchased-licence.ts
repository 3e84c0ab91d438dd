import type { LicenceStateRow } from '../lifecycle/licence-queries.ts'
import { payable } from '../lifecycle/licence.ts'
import type { PlanRow } from '../plans/plan-queries.ts'
import { basisOf } from './basis.ts'
import type { Basis } from './basis.ts'
import type { LaterEffect } from './effect.ts'
import { orderOf } from './purchase.ts'
import type { Purchase, RecordedEffect } from './purchase.ts'

export type LockedLicence = LicenceStateRow & {
  snapshot_id: string
  rests_on: string | null
  reactivated_at: Date | null
}

/** A locked licence with all purchases that it may rest on, and their effects. */
export interface PurchasedLicence {
  licence: LockedLicence
  purchases: Purchase[]
  effects: RecordedEffect[]
}

/** Whether a payment of the customer changes this licence; otherwise it creates another one. */
export const takesPayments = ({ licence }: PurchasedLicence): boolean => payable.includes(licence.status)

export function purchaseOf({ purchases }: PurchasedLicence, ref: string): Purchase | undefined {
  return purchases.find((purchase) => purchase.purchase_ref === ref)
}

/** The purchase that the licence rests on, as it was last written. */
export function restsOn({ licence, purchases }: PurchasedLicence): Purchase | undefined {
  return purchases.find((purchase) => purchase.purchase_ref === licence.rests_on) ?? purchases[0]
}

/** The terms on which a licence was issued or imported, as a purchase. Its row is inserted with the first payment. */
export function issuedTerms(licence: LockedLicence): Purchase {
  return {
    application_id: licence.application_id,
    purchase_ref: licence.id,
    account_id: licence.account_id,
    licence_id: licence.id,
    ordered_at: null,
    ...termsOf(licence),
    terminated_at: null,
    money_returned: false,
    renews: false,
    updates_until: licence.updates_until,
    metadata: licence.metadata,
  }
}

type Terms = Pick<LockedLicence, 'plan_id' | 'snapshot_id' | 'expires_on'>

/** Plan and end of a purchase when it is made. */
export function termsOf({ plan_id, snapshot_id, expires_on: ends_at }: Terms) {
  return {
    plan_id,
    snapshot_id,
    ends_at,
    bought_plan_id: plan_id,
    bought_snapshot_id: snapshot_id,
    bought_ends_at: ends_at,
  }
}

/** The basis of the licence at a time. The licence must have at least one purchase. */
export function basisAt({ licence, purchases, effects }: PurchasedLicence, now: Date): Basis {
  return basisOf(purchases, effects, licence.reactivated_at, now.getTime())
}

/** A time that is later than all known events of the licence's purchases, and not before `now`. */
export function timeAfterKnownEvents({ licence, purchases, effects }: PurchasedLicence, now: Date): Date {
  const known = [
    licence.reactivated_at?.getTime() ?? 0,
    ...effects.map(({ at }) => at.getTime()),
    ...purchases.flatMap((purchase) => [orderOf(purchase), purchase.terminated_at?.getTime() ?? 0]),
  ]
  return new Date(Math.max(now.getTime(), ...known.map((at) => at + 1)))
}

/** Adds an effect to the purchase and its licence. @param plan the plan of a renewal */
export function recordEffect(
  { effects }: PurchasedLicence,
  purchase: Purchase,
  effect: LaterEffect,
  plan: PlanRow | undefined,
): RecordedEffect {
  const { kind, cause, at, orderedAt } = effect
  purchase.ordered_at = orderedAt
  const recorded: RecordedEffect = {
    purchase_ref: purchase.purchase_ref,
    kind,
    cause,
    at,
    ends_at: kind === 'renewed' ? effect.endsAt : null,
    plan_id: plan?.id ?? null,
    snapshot_id: plan?.snapshot_id ?? null,
    updates_until: kind === 'renewed' ? effect.updatesUntil : null,
  }
  effects.push(recorded)
  const isReturned = kind === 'refunded' || kind === 'charged_back'
  if (isReturned || kind === 'canceled') {
    if (!purchase.terminated_at || at < purchase.terminated_at) purchase.terminated_at = at
    purchase.money_returned ||= isReturned
  }
  applyRenewals(purchase, effects)
  purchase.renews = willRenew(purchase, effects)
  return recorded
}

/**
 * Whether the processor will charge the purchase again: the latest known effect decides, and a cancellation is final.
 */
function willRenew({ purchase_ref: ref, renews }: Purchase, effects: readonly RecordedEffect[]): boolean {
  const own = effects.filter(({ purchase_ref }) => purchase_ref === ref)
  if (own.some(({ kind }) => kind === 'canceled')) return false
  const latest = own
    .filter(({ kind }) => kind === 'renewal_stopped' || kind === 'renewal_resumed')
    .sort((a, b) => a.at.getTime() - b.at.getTime() || (a.kind < b.kind ? -1 : 1))
    .at(-1)
  return latest ? latest.kind === 'renewal_resumed' : renews
}

/** Sets the end and the plan that the purchase's renewals give, in whatever order they became known. */
function applyRenewals(purchase: Purchase, effects: readonly RecordedEffect[]): void {
  const renewals = effects
    .filter(({ purchase_ref, kind }) => purchase_ref === purchase.purchase_ref && kind === 'renewed')
    // A renewal after the purchase was refunded or canceled changes nothing.
    .filter(({ at }) => !purchase.terminated_at || at <= purchase.terminated_at)
    .sort((a, b) => a.at.getTime() - b.at.getTime() || (a.cause < b.cause ? -1 : 1))
  let [end, planId, snapshotId] = [
    purchase.bought_ends_at,
    purchase.bought_plan_id,
    purchase.bought_snapshot_id,
  ]
  for (const { ends_at, plan_id, snapshot_id } of renewals) {
    // A renewal never moves the end back.
    if (end && ends_at && end < ends_at) end = ends_at
    if (plan_id === null || snapshot_id === null || plan_id === planId) continue
    ;[planId, snapshotId] = [plan_id, snapshot_id]
  }
  Object.assign(purchase, { ends_at: end, plan_id: planId, snapshot_id: snapshotId })
}
