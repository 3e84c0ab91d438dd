import { LostRace } from '@licensing/changes/change'
import type { Transaction } from '@licensing/database/connect'
import { ServiceError } from '@licensing/grpc/errors'
import type { LicenceRow } from '../lifecycle/licence-row.ts'
import { addPurchase, applyLaterEffect, createLicence } from './apply-effect.ts'
import type { Batch } from './apply-effect.ts'
import { noChanges, writeChanges } from './changes.ts'
import { planIdOf } from './effect.ts'
import type { Effect } from './effect.ts'
import { areLocked, lockPurchasedLicences, readForEffects, renewalsUntil } from './lock-purchased-licences.ts'
import type { EffectsOn } from './lock-purchased-licences.ts'
import { findNewestLicences, findProvisions, lockCustomers } from './provision-queries.ts'
import { findDecidingRenewals, lockPlansOf } from './purchase-queries.ts'
import type { Wanted } from './purchase-queries.ts'
import { takesPayments } from './purchased-licence.ts'
import type { PurchasedLicence } from './purchased-licence.ts'

export type Result = { licence: LicenceRow; created: boolean } | { refused: ServiceError }

export interface ReceivedEffect {
  effect: Effect
  /** Why the effect cannot be applied. */
  refusal?: ServiceError
}

/** Refusals by purchase: later effects of such a purchase are refused, too. */
export type Refusals = Map<string, ServiceError>

/**
 * Applies effects in their order, in one transaction. Lock order: customers, plans, licences, counters.
 *
 * @returns results of the first effects. The transaction stops before a payment for a licence that an effect of this batch
 *   revoked, and before too many effects on one licence: the caller applies the rest in another transaction, which looks
 *   for another licence of the customer
 */
export async function applyBatch(
  tx: Transaction,
  effects: readonly ReceivedEffect[],
  refusals: Refusals,
): Promise<Result[]> {
  const located = withinLimit(await locateLicences(tx, effects))
  const wanted = wantedBy(located)
  const plans = await lockPlansOf(tx, wanted, [...planIdsOf(located), ...(await renewedPlansOf(tx, located))])
  const { now, licences } = await lockPurchasedLicences(tx, wanted)
  await readForEffects(tx, effectsOn(located, licences))
  const named = new Set(located.map(({ effect }) => effect.purchaseRef))
  if (![...licences.values()].every((purchased) => areLocked(plans, purchased, named))) throw new LostRace()
  const batch: Batch = { changes: noChanges(now), plans }
  const results: Result[] = []
  const state = { licences, refusals, customers: new Map(), provisioned: new Map() }
  for (const one of located) {
    const result = applyOrRefuse(batch, one, state)
    if (result === 'locate again') {
      if (results.length === 0) throw new LostRace()
      break
    }
    results.push(result)
  }
  await writeChanges(tx, batch.changes)
  return results
}

/**
 * An effect with the licence that it changes: that of its purchase or, if it is not paid yet, that of its customer.
 */
type LocatedEffect = ReceivedEffect & { licenceId: string | undefined; created: boolean; isPaid: boolean }

/** The plans to which renewals that became known before can bring these effects' purchases back. */
async function renewedPlansOf(tx: Transaction, located: readonly LocatedEffect[]): Promise<string[]> {
  const wanted = located.flatMap(({ effect, licenceId }) =>
    licenceId === undefined || effect.kind === 'paid' ? [] : renewalsUntil(licenceId, effect),
  )
  return (await findDecidingRenewals(tx, wanted)).flatMap(({ plan_id }) => plan_id ?? [])
}

/** Finds the licences that effects change. Locks the customers of payments. */
async function locateLicences(tx: Transaction, effects: readonly ReceivedEffect[]): Promise<LocatedEffect[]> {
  const customers = effects.flatMap(({ effect }) => customerOf(effect) ?? [])
  if (customers.length > 0) await lockCustomers(tx, customers)
  const provisions = await findProvisions(
    tx,
    effects.map(({ effect }) => effect),
  )
  const located = effects.map((received, at): LocatedEffect => {
    const provision = provisions[at]
    return {
      ...received,
      licenceId: provision?.licence_id,
      created: provision?.created ?? false,
      isPaid: provision !== undefined,
    }
  })
  const payments = located.filter(({ isPaid, effect }) => !isPaid && effect.kind === 'paid')
  if (payments.length > 0) {
    const licenceIds = await findNewestLicences(
      tx,
      payments.flatMap(({ effect }) => customerOf(effect) ?? []),
    )
    payments.forEach((one, at) => (one.licenceId = licenceIds[at]))
  }
  return located
}

function customerOf(effect: Effect) {
  if (effect.kind !== 'paid') return undefined
  const { accountId, applicationId, externalRef } = effect
  return { accountId, applicationId, externalRef }
}

export function planIdsOf(effects: readonly ReceivedEffect[]): string[] {
  return [...new Set(effects.flatMap(({ effect }) => planIdOf(effect) ?? []))]
}

// Each of them can add purchases that are to be read.
const maxEffectsOfLicence = 10

/** The first effects, up to the one that would be too many for its licence or its new customer. */
function withinLimit(located: LocatedEffect[]): LocatedEffect[] {
  const counts = new Map<string, number>()
  const end = located.findIndex(({ effect, licenceId }) => {
    const subject = licenceId ?? customerName(effect)
    const count = (counts.get(subject) ?? 0) + 1
    counts.set(subject, count)
    return count > maxEffectsOfLicence
  })
  return end === -1 ? located : located.slice(0, end)
}

const customerName = (effect: Effect) =>
  `${effect.applicationId} ${effect.kind === 'paid' ? effect.externalRef : effect.purchaseRef}`

function wantedBy(located: LocatedEffect[]): Wanted[] {
  const byLicence = Map.groupBy(located, ({ licenceId }) => licenceId)
  return [...byLicence].flatMap(([licenceId, ofLicence]) => {
    if (licenceId === undefined) return []
    return [{ licenceId, purchaseRefs: [...new Set(ofLicence.map(({ effect }) => effect.purchaseRef))] }]
  })
}

function effectsOn(located: LocatedEffect[], licences: Map<string, PurchasedLicence>): EffectsOn[] {
  const byLicence = Map.groupBy(located, ({ licenceId }) => licenceId ?? '')
  return [...licences.values()].map((purchased) => {
    const effects = byLicence.get(purchased.licence.id)!.map(({ effect }) => effect)
    return {
      purchased,
      paid: effects.filter((effect) => effect.kind === 'paid'),
      later: effects.filter((effect) => effect.kind !== 'paid'),
    }
  })
}

interface BatchState {
  licences: Map<string, PurchasedLicence>
  /** Licences by customer, after the payments of this batch. */
  customers: Map<string, PurchasedLicence>
  /** Licences by purchase that was paid in this batch. */
  provisioned: Map<string, Provisioned>
  refusals: Refusals
}

interface Provisioned {
  purchased: PurchasedLicence
  created: boolean
}

function applyOrRefuse(batch: Batch, located: LocatedEffect, state: BatchState): Result | 'locate again' {
  const name = purchaseName(located.effect)
  const earlier = state.refusals.get(name)
  if (earlier) return { refused: earlier }
  try {
    if (located.refusal) throw located.refusal
    const done = applyEffect(batch, located, state)
    return done === 'locate again' ? done : { licence: { ...done.purchased.licence }, created: done.created }
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error
    state.refusals.set(name, error)
    return { refused: error }
  }
}

export const purchaseName = ({ applicationId, purchaseRef }: Effect) => `${applicationId} ${purchaseRef}`

function applyEffect(
  batch: Batch,
  { effect, licenceId, isPaid, created }: LocatedEffect,
  { licences, customers, provisioned }: BatchState,
): Provisioned | 'locate again' {
  const name = purchaseName(effect)
  const licence = licences.get(licenceId ?? '')
  const before = provisioned.get(name) ?? (isPaid && licence ? { purchased: licence, created } : undefined)
  if (before) {
    if (effect.kind !== 'paid') applyLaterEffect(batch, before.purchased, effect)
    return before
  }
  if (effect.kind !== 'paid') {
    throw new ServiceError('not_found', `purchase ${effect.purchaseRef} has no licence: it was not paid`)
  }
  const customer = `${effect.applicationId} ${effect.externalRef}`
  const own = customers.get(customer) ?? licence
  if (own && (!takesPayments(own) || own.licence.external_ref !== effect.externalRef)) return 'locate again'
  if (own) addPurchase(batch, own, effect)
  const done = { purchased: own ?? createLicence(batch, effect), created: own === undefined }
  customers.set(customer, done.purchased)
  provisioned.set(name, done)
  return done
}
