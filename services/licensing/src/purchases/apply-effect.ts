import { isDeepStrictEqual } from 'node:util'
import { newId } from '@licensing/database/ids'
import { ServiceError } from '@licensing/grpc/errors'
import { mergedMetadata } from '@licensing/proto/metadata'
import type { Metadata } from '@licensing/proto/metadata'
import { licenceFields } from '../lifecycle/licence-fields.ts'
import { newLicenceKey } from '../lifecycle/licence-key.ts'
import { initialStatus } from '../lifecycle/licence.ts'
import { planUnknown } from '../plans/ask-catalog.ts'
import type { PlanRow } from '../plans/plan-queries.ts'
import { reconcileLicence } from './reconcile-licence.ts'
import { changePaidFields, count, savePurchase } from './changes.ts'
import type { Changes } from './changes.ts'
import type { Effect, LaterEffect, PaidEffect } from './effect.ts'
import { addEntries, mergedEntries, moveEntries } from './paid-metadata.ts'
import type { PaidEntry } from './paid-metadata.ts'
import { inOrderOfTime } from './purchase.ts'
import type { Purchase } from './purchase.ts'
import {
  effectName,
  issuedTerms,
  later,
  newPurchase,
  purchaseOf,
  recordEffect,
  formerGoverning,
  mayRenewAt,
  takesPayments,
  withoutPurchases,
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
  const purchased = withoutPurchases(licence)
  savePayment(changes, purchased, boughtBy(effect, plan, licence.id))
  changes.created.push({ ...licence })
  saveProvision(changes, effect, licence, true)
  const { history: type, status: to } = initialStatus.bought
  changes.history.push({ licenceId: licence.id, type, to, ...byProcessor(effect), at: changes.now })
  count(changes, plan.id, 1)
  const value = { licenceId: licence.id, planId: plan.id, status: licence.status }
  changes.events.push({
    accountId: effect.accountId,
    applicationId: effect.applicationId,
    licencePlanId: plan.id,
    payload: { case: 'licenceCreated', value },
  })
  return purchased
}

/** Adds a purchase to the licence of a customer, because the customer has paid. */
export function addPurchase(batch: Batch, purchased: PurchasedLicence, effect: PaidEffect): void {
  const { changes, plans } = batch
  const { licence } = purchased
  const plan = planFor(batch, effect, effect.planId)
  if (purchased.purchases.length === 0) savePayment(changes, purchased, issuedTerms(licence))
  const former = formerGoverning(purchased)
  const paid = paidFields(purchased)
  const purchase = boughtBy(effect, plan, licence.id)
  const brought = savePayment(changes, purchased, purchase)
  reconcileLicence(changes, purchased, plans, byProcessor(effect), { kind: 'paid', former })
  changePaidFields(changes, licence, byProcessor(effect), {
    metadata: metadataAfter(purchased, paid.metadata, brought, purchase),
    updates_until: updatesAfter(purchased, paid.updates_until, effect.updatesUntil),
    max_activations: licence.trial_limit ? null : licence.max_activations,
  })
  Object.assign(licence, { trial: false, trial_limit: false })
  changes.licences.set(licence.id, licence)
  saveProvision(changes, effect, licence, false)
}

/** Adds a purchase to its licence. @returns the entries of the licence's metadata that the purchase brings */
function savePayment(changes: Changes, purchased: PurchasedLicence, purchase: Purchase): PaidEntry[] {
  const { licence } = purchased
  purchased.purchases.push(purchase)
  savePurchase(changes, purchase)
  licence.latest_event_at = later(licence.latest_event_at, purchase.ordered_at)
  const brought = addEntries(purchased.entries, purchase)
  for (const entry of brought) changes.entries.add(entry)
  if (brought.length > 0) purchased.bringing.push(purchase)
  return brought
}

/** Applies an effect on a purchase that was paid. A repetition changes nothing. */
export function applyLaterEffect(batch: Batch, purchased: PurchasedLicence, effect: LaterEffect): void {
  const { changes, plans } = batch
  const { kind } = effect
  const { licence } = purchased
  const plan = kind === 'renewed' && effect.planId ? planFor(batch, effect, effect.planId) : undefined
  const purchase = purchaseOf(purchased, effect.purchaseRef)!
  if (purchased.known.has(effectName(purchase.purchase_ref, effect))) return
  const former = formerGoverning(purchased)
  const paid = paidFields(purchased)
  const formerOrder = purchase.ordered_at
  const recorded = recordEffect(purchased, purchase, effect, plan)
  changes.effects.push({ ...recorded, licence_id: licence.id })
  savePurchase(changes, purchase)
  const moved = moveEntries(purchased.entries, purchase, formerOrder, purchased.bringing)
  for (const entry of moved) changes.entries.add(entry)
  const paidUntil = kind === 'renewed' && mayRenewAt(purchase, effect.at) ? effect.updatesUntil : null
  licence.latest_event_at = later(licence.latest_event_at, later(effect.at, effect.orderedAt))
  changes.licences.set(licence.id, licence)
  reconcileLicence(changes, purchased, plans, byProcessor(effect), { kind, former })
  if (!takesPayments(purchased)) return
  changePaidFields(changes, licence, byProcessor(effect), {
    metadata: metadataAfter(purchased, paid.metadata, moved),
    updates_until: updatesAfter(purchased, paid.updates_until, paidUntil),
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

function boughtBy(effect: PaidEffect, plan: PlanRow, licenceId: string): Purchase {
  return newPurchase({
    application_id: effect.applicationId,
    purchase_ref: effect.purchaseRef,
    account_id: effect.accountId,
    licence_id: licenceId,
    ordered_at: effect.orderedAt,
    plan_id: plan.id,
    snapshot_id: plan.snapshot_id,
    ends_at: effect.endsAt,
    renews: effect.renews,
    updates_until: effect.updatesUntil,
    metadata: effect.metadata,
  })
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
    ...licenceFields.none,
    external_ref: effect.externalRef,
    expires_on: effect.endsAt,
    created_at: now,
    updated_at: now,
    metadata: effect.metadata,
    updates_until: effect.updatesUntil,
    trial: false,
    hold: 'none',
    purchase: 'paid',
    snapshot_id: plan.snapshot_id,
    governed_by: effect.purchaseRef,
    reactivated_at: null,
    latest_event_at: null,
    trial_limit: false,
  }
}

/** The metadata and the end of updates that the payments of a licence give. */
function paidFields(purchased: PurchasedLicence): Pick<LockedLicence, 'metadata' | 'updates_until'> {
  return { metadata: mergedEntries(purchased.entries), updates_until: includedUpdates(purchased) }
}

/**
 * The licence's new metadata. If the vendor has changed it, a new payment still sets its entries, except those that a later
 * payment brings, too.
 *
 * @param before the metadata that its payments gave before this effect
 * @param changed the entries that this effect changes
 * @param paid the new purchase, if the effect is its payment
 */
function metadataAfter(
  { licence, entries }: PurchasedLicence,
  before: Metadata,
  changed: readonly PaidEntry[],
  paid?: Purchase,
): Metadata {
  if (changed.length === 0) return licence.metadata
  if (isDeepStrictEqual(licence.metadata, before)) return mergedEntries(entries)
  const own = changed.filter(({ last_ref }) => last_ref === paid?.purchase_ref)
  return mergedMetadata(licence.metadata, Object.fromEntries(own.map(({ name, value }) => [name, value])))
}

/**
 * Until when the payments of a licence include updates; null: without a limit. The licence's first purchase, in the order of
 * the processor's clock, decides whether there is a limit. So the result does not depend on the order in which
 * payments became known.
 */
function includedUpdates({ purchases }: PurchasedLicence): Date | null {
  const [first] = inOrderOfTime(purchases)
  return first?.updates_until
    ? purchases.map(({ paid_updates_until }) => paid_updates_until).reduce(later, null)
    : null
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
