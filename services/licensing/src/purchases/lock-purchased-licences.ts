import type { Transaction } from '@licensing/database/connect'
import { databaseTime } from '@licensing/database/time-queries'
import type { OnLocked } from '../lifecycle/licence-queries.ts'
import type { PlanRow } from '../plans/plan-queries.ts'
import { effectMeanings } from './effect.ts'
import type { LaterEffect, PaidEffect } from './effect.ts'
import { recentPurchases } from './governing-purchase.ts'
import { metadataLimits } from '@licensing/proto/metadata'
import { findBringing, findPaidEntries } from './paid-metadata-queries.ts'
import { fellAt, inOrderOfTime } from './purchase.ts'
import type { Purchase } from './purchase.ts'
import {
  findDecidingPurchases,
  findDecidingRenewals,
  findKnownEffects,
  findLastFallenAfter,
  lockLicences,
} from './purchase-queries.ts'
import type { EffectName, RenewalsUntil, Wanted } from './purchase-queries.ts'
import { effectName, withoutPurchases } from './purchased-licence.ts'
import type { PurchasedLicence } from './purchased-licence.ts'

interface Locked {
  /** The time by the database's clock, after the licences were locked. */
  now: Date
  licences: Map<string, PurchasedLicence>
}

/**
 * Locks licences and reads what decides about the effects on them. How much that is depends on the named purchases, and not
 * on how many others a licence has.
 */
export async function lockPurchasedLicences(
  tx: Transaction,
  wanted: Wanted[],
  onLocked: OnLocked = 'wait',
): Promise<Locked> {
  const ids = wanted.map(({ licenceId }) => licenceId)
  const rows = ids.length === 0 ? [] : await lockLicences(tx, ids, onLocked)
  const now = await databaseTime(tx)
  const licences = new Map(rows.map((licence) => [licence.id, withoutPurchases(licence)]))
  if (licences.size === 0) return { now, licences }
  const found = wanted.filter(({ licenceId }) => licences.has(licenceId))
  const add = (purchases: Purchase[]) => {
    for (const purchase of purchases) licences.get(purchase.licence_id)!.purchases.push(purchase)
  }
  add(await findDecidingPurchases(tx, found, now))
  const earlier = found.flatMap(({ licenceId, purchaseRefs }) =>
    possiblyReplaced(licences.get(licenceId)!, purchaseRefs, now),
  )
  const known = new Set([...licences.values()].flatMap(({ purchases }) => purchases.map(nameOf)))
  const fallen = await findLastFallenAfter(tx, earlier, now)
  add(fallen.filter((purchase) => !known.has(nameOf(purchase)) && known.add(nameOf(purchase))))
  return { now, licences }
}

const nameOf = ({ application_id, purchase_ref }: Purchase) => `${application_id} ${purchase_ref}`

/**
 * Purchases that may govern the licence and have so many later ones that those were not all read. All later ones, except the
 * named ones, have fallen: since the last of them fell, the purchase governs the licence.
 */
function possiblyReplaced({ licence, purchases }: PurchasedLicence, purchaseRefs: string[], now: Date) {
  const named = [...purchaseRefs, ...(licence.governed_by === null ? [] : [licence.governed_by])]
  const ordered = inOrderOfTime(purchases)
  const latestValid = ordered.findLastIndex(
    (purchase) => fellAt(purchase, now.getTime()) === Infinity && !named.includes(purchase.purchase_ref),
  )
  return ordered
    .slice(Math.max(0, latestValid), -recentPurchases)
    .map(({ licence_id, ordered_at, purchase_ref }) => {
      return { licence_id, ordered_at, purchase_ref, others_than: named }
    })
}

/**
 * Whether the transaction has locked the plans of all purchases that may govern the licence.
 *
 * @param changing references of purchases whose plan may change to an earlier one
 */
export function areLocked(
  plans: ReadonlyMap<string, PlanRow>,
  { licence, purchases, renewals }: PurchasedLicence,
  changing: ReadonlySet<string> = new Set(),
): boolean {
  const earlier = [
    ...purchases.flatMap((one) => (changing.has(one.purchase_ref) ? [one.bought_plan_id] : [])),
    ...renewals.flatMap(({ plan_id }) => plan_id ?? []),
  ]
  return [licence.plan_id, ...purchases.map(({ plan_id }) => plan_id), ...earlier].every((planId) =>
    plans.has(planId),
  )
}

/** Effects on licences that the transaction has locked. */
export interface EffectsOn {
  purchased: PurchasedLicence
  paid: PaidEffect[]
  later: LaterEffect[]
}

/** Reads what else decides about these effects. */
export async function readForEffects(tx: Transaction, effectsOn: EffectsOn[]): Promise<void> {
  const byLicence = new Map(effectsOn.map(({ purchased }) => [purchased.licence.id, purchased]))
  const each = effectsOn.flatMap(({ purchased, later }) =>
    later.map((effect) => ({ licence_id: purchased.licence.id, effect })),
  )
  const names = each.map(({ licence_id, effect: { purchaseRef, kind, cause } }): EffectName => {
    return { licence_id, purchase_ref: purchaseRef, kind, cause }
  })
  for (const name of await findKnownEffects(tx, names)) {
    byLicence.get(name.licence_id)!.known.add(effectName(name.purchase_ref, name))
  }
  const renewals = each.flatMap(({ licence_id, effect }) => renewalsUntil(licence_id, effect))
  for (const renewal of await findDecidingRenewals(tx, renewals)) {
    byLicence.get(renewal.licence_id)!.renewals.push(renewal)
  }
  await readMetadata(tx, effectsOn)
}

/** The renewals that decide about the purchase after this effect. */
export function renewalsUntil(licence_id: string, effect: LaterEffect): RenewalsUntil[] {
  const { ends } = effectMeanings[effect.kind]
  if (!ends && effect.kind !== 'renewed') return []
  const now = { licence_id, purchase_ref: effect.purchaseRef, at: null }
  return ends ? [now, { ...now, at: effect.at }] : [now]
}

async function readMetadata(tx: Transaction, effectsOn: EffectsOn[]): Promise<void> {
  const byLicence = new Map(effectsOn.map(({ purchased }) => [purchased.licence.id, purchased]))
  const reordered = effectsOn.map((each) => ({ ...each, ranges: rangesOf(each) }))
  for (const { purchased } of effectsOn) {
    purchased.bringing.push(...purchased.purchases.filter(({ metadata }) => Object.keys(metadata).length > 0))
  }
  for (const { licence_id, ...bringing } of await findBringing(
    tx,
    reordered.flatMap(({ ranges }) => ranges),
  )) {
    const others = byLicence.get(licence_id)!.bringing
    if (!others.some(({ purchase_ref }) => purchase_ref === bringing.purchase_ref)) others.push(bringing)
  }
  const wanted = reordered.flatMap(({ purchased: { licence, purchases, bringing }, paid, ranges }) => {
    const brought = [...bringing, ...paid].flatMap(({ metadata }) => Object.keys(metadata))
    if (purchases.length === 0 || brought.length === 0) return []
    // Each corrected order can put as many names behind others.
    const limit = metadataLimits.entries * (1 + ranges.length)
    return [{ licence_id: licence.id, names: [...new Set(brought)], limit }]
  })
  for (const entry of await findPaidEntries(tx, wanted)) byLicence.get(entry.licence_id)!.entries.push(entry)
}

/** The times between which these effects move purchases that bring metadata. */
function rangesOf({ purchased, later }: EffectsOn) {
  return purchased.purchases.flatMap(({ licence_id, purchase_ref, ordered_at, metadata }) => {
    const times = later
      .filter(({ purchaseRef }) => purchaseRef === purchase_ref)
      .map(({ orderedAt }) => orderedAt.getTime())
    const at = ordered_at.getTime()
    const [from, to] = [Math.min(at, ...times), Math.max(at, ...times)]
    if (from === to || Object.keys(metadata).length === 0) return []
    return [{ licence_id, from: new Date(from), to: new Date(to) }]
  })
}
