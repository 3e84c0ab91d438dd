import { isDeepStrictEqual } from 'node:util'
import { newId } from '@licensing/database/ids'
import { ServiceError } from '@licensing/grpc/errors'
import { newLicenceKey } from '../lifecycle/licence-key.ts'
import { initialStatus } from '../lifecycle/licence.ts'
import { planUnknown } from '../plans/ask-catalog.ts'
import type { PlanRow } from '../plans/plan-queries.ts'
import { mergedMetadata } from '@licensing/proto/metadata'
import type { Metadata } from '@licensing/proto/metadata'
import { alignLicence } from './align-licence.ts'
import { changePaidFields, count, savePurchase } from './changes.ts'
import type { Changes } from './changes.ts'
import type { Effect, LaterEffect, PaidEffect } from './effect.ts'
import { inOrderOfTime, isLater } from './purchase.ts'
import type { Purchase } from './purchase.ts'
import {
  basisAt,
  takesPayments,
  issuedTerms,
  purchaseOf,
  recordEffect,
  restsOn,
  termsOf,
} from './purchased-licence.ts'
import type { LockedLicence, PurchasedLicence } from './purchased-licence.ts'

/** The changes of a batch so far, and the plans that it has locked. */
export interface Batch {
  changes: Changes
  plans: ReadonlyMap<string, PlanRow>
}

/** Creates a licence, because a customer without a licence has paid. */
export function createLicence(batch: Batch, effect: PaidEffect): PurchasedLicence {
  const { changes } = batch
  const plan = planFor(batch, effect, effect.planId)
  const licence = newLicence(effect, plan, changes.now)
  const purchase = newPurchase(effect, plan, licence.id)
  changes.created.push({ ...licence })
  savePurchase(changes, purchase)
  saveProvision(changes, effect, licence, true)
  const { history: type, status: to } = initialStatus.bought
  changes.history.push({ licenceId: licence.id, type, to, ...byProcessor(effect), at: changes.now })
  count(changes, plan.id, 1)
  const value = { licenceId: licence.id, planId: plan.id, status: licence.status }
  changes.events.push({
    accountId: effect.accountId,
    applicationId: effect.applicationId,
    payload: { case: 'licenceCreated', value },
  })
  return { licence, purchases: [purchase], effects: [] }
}

/** Adds a purchase to the licence of a customer, because the customer has paid. */
export function addPurchase(batch: Batch, purchased: PurchasedLicence, effect: PaidEffect): void {
  const { changes, plans } = batch
  const { licence } = purchased
  const plan = planFor(batch, effect, effect.planId)
  if (purchased.purchases.length === 0) {
    const issued = issuedTerms(licence)
    purchased.purchases.push(issued)
    savePurchase(changes, issued)
  }
  const [restedOn, before] = [restsOn(purchased), basisAt(purchased, changes.now)]
  const [entries, included] = [paidMetadata(purchased), includedUpdates(purchased)]
  const purchase = newPurchase(effect, plan, licence.id)
  purchased.purchases.push(purchase)
  savePurchase(changes, purchase)
  const after = basisAt(purchased, changes.now)
  alignLicence(changes, purchased, plans, byProcessor(effect), {
    kind: 'paid',
    purchase,
    restedOn,
    before,
    after,
  })
  licence.trial = false
  changePaidFields(changes, licence, byProcessor(effect), {
    metadata: metadataAfter(purchased, entries, purchase),
    updates_until: updatesAfter(purchased, included, effect.updatesUntil),
  })
  saveProvision(changes, effect, licence, false)
}

/** Applies an effect on a purchase that was paid. A repetition changes nothing. */
export function applyLaterEffect(batch: Batch, purchased: PurchasedLicence, effect: LaterEffect): void {
  const { changes, plans } = batch
  const { kind, cause } = effect
  const { licence } = purchased
  const plan = kind === 'renewed' && effect.planId ? planFor(batch, effect, effect.planId) : undefined
  const purchase = purchaseOf(purchased, effect.purchaseRef)!
  const isKnown = purchased.effects.some(
    (known) => known.purchase_ref === purchase.purchase_ref && known.kind === kind && known.cause === cause,
  )
  if (isKnown) return
  const [restedOn, before] = [restsOn(purchased), basisAt(purchased, changes.now)]
  const [entries, included] = [paidMetadata(purchased), includedUpdates(purchased)]
  const recorded = recordEffect(purchased, purchase, effect, plan)
  changes.effects.push({ ...recorded, licence_id: licence.id })
  savePurchase(changes, purchase)
  const after = basisAt(purchased, changes.now)
  alignLicence(changes, purchased, plans, byProcessor(effect), { kind, purchase, restedOn, before, after })
  if (!takesPayments(purchased)) return
  const paidUntil = kind === 'renewed' ? effect.updatesUntil : null
  changePaidFields(changes, licence, byProcessor(effect), {
    metadata: metadataAfter(purchased, entries),
    updates_until: updatesAfter(purchased, included, paidUntil),
  })
}

const byProcessor = ({ cause }: Effect) => ({ actor: 'processor', cause })

/** @throws ServiceError if the plan is not one of the application, or is retired and would be sold */
function planFor({ plans }: Batch, effect: Effect, planId: string): PlanRow {
  const plan = plans.get(planId)
  if (plan?.application_id !== effect.applicationId || plan.account_id !== effect.accountId) {
    throw planUnknown({ ...effect, planId })
  }
  if (plan.status === 'retired' && effect.kind === 'paid') {
    throw new ServiceError(
      'plan_archived',
      `plan ${plan.id} is retired: restore plan ${plan.id} first, then provision again`,
    )
  }
  return plan
}

function saveProvision(changes: Changes, effect: Effect, licence: LockedLicence, created: boolean): void {
  const { applicationId: application_id, purchaseRef: payment_ref } = effect
  changes.provisions.push({ application_id, payment_ref, licence_id: licence.id, created })
}

function newPurchase(effect: PaidEffect, plan: PlanRow, licenceId: string): Purchase {
  return {
    application_id: effect.applicationId,
    purchase_ref: effect.purchaseRef,
    account_id: effect.accountId,
    licence_id: licenceId,
    ordered_at: effect.orderedAt,
    ...termsOf({ plan_id: plan.id, snapshot_id: plan.snapshot_id, expires_on: effect.endsAt }),
    terminated_at: null,
    money_returned: false,
    renews: effect.renews,
    updates_until: effect.updatesUntil,
    metadata: effect.metadata,
  }
}

function newLicence(effect: PaidEffect, plan: PlanRow, now: Date): LockedLicence {
  return {
    id: newId('lic'),
    key: newLicenceKey(),
    account_id: effect.accountId,
    application_id: effect.applicationId,
    plan_id: plan.id,
    status: initialStatus.bought.status,
    status_reason: null,
    external_ref: effect.externalRef,
    domains: [],
    max_activations: null,
    max_seats: null,
    max_concurrent: null,
    lease_minutes: null,
    expires_on: effect.endsAt,
    created_at: now,
    updated_at: now,
    metadata: effect.metadata,
    updates_until: effect.updatesUntil,
    trial: false,
    expired_from: null,
    expired_from_reason: null,
    snapshot_id: plan.snapshot_id,
    rests_on: effect.purchaseRef,
    reactivated_at: null,
  }
}

/** The entries that the payments of a licence bring, merged in the order of the processor's clock. */
function paidMetadata({ purchases }: PurchasedLicence): Metadata {
  return inOrderOfTime(purchases).reduce<Metadata>((held, { metadata }) => mergedMetadata(held, metadata), {})
}

/**
 * The licence's new metadata. If the vendor has changed it, a new payment still sets its entries, except those that a later
 * payment brings, too.
 *
 * @param entries `paidMetadata` before this effect
 * @param paid the new purchase, if the effect is its payment
 */
function metadataAfter(purchased: PurchasedLicence, entries: Metadata, paid?: Purchase): Metadata {
  const { licence, purchases } = purchased
  if (isDeepStrictEqual(licence.metadata, entries)) return paidMetadata(purchased)
  if (!paid) return licence.metadata
  const later = purchases.filter((purchase) => isLater(purchase, paid))
  const own = Object.entries(paid.metadata).filter(
    ([name]) => !later.some(({ metadata }) => Object.hasOwn(metadata, name)),
  )
  return mergedMetadata(licence.metadata, Object.fromEntries(own))
}

/**
 * Until when the payments of a licence include updates; null: without a limit. The licence's first purchase, in the order of
 * the processor's clock, decides whether there is a limit. So the result does not depend on the order in which
 * payments became known.
 */
function includedUpdates({ purchases, effects }: PurchasedLicence): Date | null {
  const [first] = inOrderOfTime(purchases)
  if (!first?.updates_until) return null
  const times = [...purchases, ...effects].flatMap(({ updates_until: until }) => until?.getTime() ?? [])
  return new Date(Math.max(...times))
}

/**
 * The licence's new `updates_until`. If the vendor has changed it, a payment moves it from there, never back.
 *
 * @param included `includedUpdates` before this payment
 * @param paidUntil until when this payment includes updates; null if it does not set this
 */
function updatesAfter(
  purchased: PurchasedLicence,
  included: Date | null,
  paidUntil: Date | null,
): Date | null {
  const { updates_until: current } = purchased.licence
  if (current?.getTime() === included?.getTime()) return includedUpdates(purchased)
  return current && paidUntil && current < paidUntil ? paidUntil : current
}
