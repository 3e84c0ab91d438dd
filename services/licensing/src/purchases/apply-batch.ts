import type { Transaction } from '@licensing/database/connect'
import { ServiceError } from '@licensing/grpc/errors'
import { Moved } from '../lifecycle/until-settled.ts'
import type { LicenceRow } from '../lifecycle/licence-row.ts'
import { applyTo, landOn, mintFor } from './apply-effect.ts'
import type { Workplace } from './apply-effect.ts'
import { noChanges } from './changes.ts'
import { planIdOf } from './effect.ts'
import type { Effect } from './effect.ts'
import { isHeld } from './holding.ts'
import type { Holding } from './holding.ts'
import {
  databaseTime,
  findFacts,
  findLandings,
  findNewestHeld,
  findPurchases,
  lockCustomers,
  lockLicences,
  lockPlansOf,
} from './purchase-queries.ts'
import type { Busy } from './purchase-queries.ts'
import { writeChanges } from './write-changes.ts'

export type Result = { licence: LicenceRow; created: boolean } | { refused: ServiceError }

export interface Asked {
  effect: Effect
  /** Why it cannot be applied. */
  refusal?: ServiceError
}

/** Refusals by purchase: what follows of such a purchase is refused, too. */
export type Refusals = Map<string, ServiceError>

/**
 * Applies effects in their order, in one transaction. Lock order: customers, plans, licences, counters.
 *
 * @returns the results of the first ones: the rest are about licences that these have taken from their customers
 */
export async function applyBatch(
  tx: Transaction,
  effects: readonly Asked[],
  refusals: Refusals,
): Promise<Result[]> {
  const found = await locate(tx, effects)
  const licenceIds = [...new Set(found.flatMap(({ licenceId }) => licenceId ?? []))]
  const plans = await lockPlansOf(tx, licenceIds, planIdsOf(effects))
  const holdings = await lockHoldings(tx, licenceIds)
  for (const { licence, purchases } of holdings.values()) {
    const restsOn = [licence.plan_id, ...purchases.map((purchase) => purchase.plan_id)]
    if (restsOn.some((planId) => !plans.has(planId))) throw new Moved()
  }
  const place: Workplace = { changes: noChanges(await databaseTime(tx)), plans }
  const results: Result[] = []
  const known = { holdings, refusals, customers: new Map(), landed: new Map() }
  for (const one of found) {
    const result = applyOne(place, one, known)
    if (result === 'look again') {
      if (results.length === 0) throw new Moved()
      break
    }
    results.push(result)
  }
  await writeChanges(tx, place.changes)
  return results
}

/** An effect, and the licence that it is about where there is one. */
type Found = Asked & { licenceId: string | undefined; created: boolean; landed: boolean }

/** Finds the licences that the effects are about; customers whose payments land are locked. */
async function locate(tx: Transaction, effects: readonly Asked[]): Promise<Found[]> {
  const customers = effects.flatMap(({ effect }) => customerOf(effect) ?? [])
  if (customers.length > 0) await lockCustomers(tx, customers)
  const landings = await findLandings(
    tx,
    effects.map(({ effect }) => effect),
  )
  const found = effects.map(({ effect, refusal }, at): Found => {
    const landing = landings[at]
    return {
      ...(refusal && { refusal }),
      effect,
      licenceId: landing?.licence_id,
      created: landing?.created ?? false,
      landed: landing !== undefined,
    }
  })
  const landing = found.filter(({ landed, effect }) => !landed && effect.what.kind === 'landed')
  if (landing.length > 0) {
    const held = await findNewestHeld(
      tx,
      landing.flatMap(({ effect }) => customerOf(effect) ?? []),
    )
    landing.forEach((one, at) => (one.licenceId = held[at]))
  }
  return found
}

function customerOf({ accountId, applicationId, what }: Effect) {
  return what.kind === 'landed' ? { accountId, applicationId, externalRef: what.externalRef } : undefined
}

export function planIdsOf(effects: readonly Asked[]): string[] {
  return [...new Set(effects.flatMap(({ effect }) => planIdOf(effect) ?? []))]
}

export async function lockHoldings(
  tx: Transaction,
  licenceIds: string[],
  busy: Busy = 'wait',
): Promise<Map<string, Holding>> {
  if (licenceIds.length === 0) return new Map()
  const licences = await lockLicences(tx, licenceIds, busy)
  const [purchases, facts] = await Promise.all([findPurchases(tx, licenceIds), findFacts(tx, licenceIds)])
  const holdings = new Map(
    licences.map((licence): [string, Holding] => [licence.id, { licence, purchases: [], facts: [] }]),
  )
  for (const purchase of purchases) holdings.get(purchase.licence_id)?.purchases.push(purchase)
  for (const fact of facts) holdings.get(fact.licence_id)?.facts.push(fact)
  return holdings
}

interface Known {
  holdings: Map<string, Holding>
  /** Licences by customer, as payments of this batch have left them. */
  customers: Map<string, Holding>
  /** Licences by purchase that has landed in this batch. */
  landed: Map<string, { holding: Holding; created: boolean }>
  refusals: Refusals
}

function applyOne(place: Workplace, found: Found, known: Known): Result | 'look again' {
  const name = purchaseName(found.effect)
  const earlier = known.refusals.get(name)
  if (earlier) return { refused: earlier }
  try {
    if (found.refusal) throw found.refusal
    const done = bringTo(place, found, known)
    return done === 'look again' ? done : { licence: { ...done.holding.licence }, created: done.created }
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error
    known.refusals.set(name, error)
    return { refused: error }
  }
}

export const purchaseName = ({ applicationId, purchaseRef }: Effect) => `${applicationId} ${purchaseRef}`

function bringTo(
  place: Workplace,
  { effect, licenceId, landed, created }: Found,
  { holdings, customers, landed: landedNow }: Known,
): { holding: Holding; created: boolean } | 'look again' {
  const name = purchaseName(effect)
  const holding = holdings.get(licenceId ?? '')
  const before = landedNow.get(name) ?? (landed && holding ? { holding, created } : undefined)
  if (before) {
    applyTo(place, before.holding, effect)
    return before
  }
  const { what } = effect
  if (what.kind !== 'landed') {
    throw new ServiceError('not_found', `purchase ${effect.purchaseRef} has not landed on a licence`)
  }
  const customer = `${effect.applicationId} ${what.externalRef}`
  const own = customers.get(customer) ?? holding
  if (own && (!isHeld(own) || own.licence.external_ref !== what.externalRef)) return 'look again'
  if (own) landOn(place, own, effect, what)
  const done = { holding: own ?? mintFor(place, effect, what), created: own === undefined }
  customers.set(customer, done.holding)
  landedNow.set(name, done)
  return done
}
