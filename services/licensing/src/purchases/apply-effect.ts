import { newId } from '@licensing/database/ids'
import { ServiceError } from '@licensing/grpc/errors'
import { newLicenceKey } from '../lifecycle/licence-key.ts'
import { initialStatus } from '../lifecycle/licence.ts'
import { planUnknown } from '../plans/ask-catalog.ts'
import type { PlanRow } from '../plans/plan-queries.ts'
import { count, touch } from './changes.ts'
import type { Changes } from './changes.ts'
import type { Effect, Landed } from './effect.ts'
import { baseOf, basisAt, purchaseOf, record, restsOn, termsOf } from './holding.ts'
import type { HeldLicence, Holding } from './holding.ts'
import type { Purchase } from './purchase.ts'
import { settleHolding } from './settle-holding.ts'

/** What effects are applied with. */
export interface Workplace {
  changes: Changes
  plans: ReadonlyMap<string, PlanRow>
}

/** A purchase lands on the licence that the customer holds. */
export function landOn(place: Workplace, holding: Holding, effect: Effect, landed: Landed): void {
  const { changes, plans } = place
  const { licence } = holding
  const plan = planFor(place, effect, landed.planId)
  if (holding.purchases.length === 0) {
    const base = baseOf(licence)
    holding.purchases.push(base)
    touch(changes, base)
  }
  const [rested, before] = [restsOn(holding), basisAt(holding, changes.now)]
  const purchase = newPurchase(effect, landed, plan, licence.id)
  holding.purchases.push(purchase)
  touch(changes, purchase)
  const news = { kind: 'landed' as const, purchase, rested, before, after: basisAt(holding, changes.now) }
  settleHolding(changes, holding, plans, byProcessor(effect), news)
  provisioned(changes, effect, licence, false)
}

/** A purchase lands of a customer who holds no licence. */
export function mintFor(place: Workplace, effect: Effect, landed: Landed): Holding {
  const { changes } = place
  const plan = planFor(place, effect, landed.planId)
  const licence = newLicence(effect, landed, plan, changes.now)
  const purchase = newPurchase(effect, landed, plan, licence.id)
  changes.minted.push({ ...licence })
  touch(changes, purchase)
  provisioned(changes, effect, licence, true)
  const { history: type, status: to } = initialStatus.bought
  changes.history.push({ licenceId: licence.id, type, to, ...byProcessor(effect), at: changes.now })
  count(changes, plan.id, 1)
  const value = { licenceId: licence.id, planId: plan.id, status: licence.status }
  changes.events.push({
    accountId: effect.accountId,
    applicationId: effect.applicationId,
    payload: { case: 'licenceCreated', value },
  })
  return { licence, purchases: [purchase], facts: [] }
}

/**
 * Before purchases had rows releases noted only what they had provisioned. Billing sends such a sale once: it is known
 * from then on, and its licence stays as it is.
 */
function register(place: Workplace, holding: Holding, effect: Effect): Purchase {
  const { changes, plans } = place
  const { licence } = holding
  const { what } = effect
  const plan = what.kind === 'landed' ? plans.get(what.planId) : undefined
  const own = { id: licence.plan_id, snapshot_id: licence.snapshot_id }
  const isFirst = holding.purchases.length === 0
  const landed = what.kind === 'landed' && !isFirst ? what : { planId: own.id, endsAt: licence.expires_on }
  const purchase = newPurchase(effect, landed, isFirst ? own : (plan ?? own), licence.id)
  const rested = restsOn(holding)
  holding.purchases.push(purchase)
  touch(changes, purchase)
  licence.rests_on = (rested ?? purchase).purchase_ref
  changes.licences.set(licence.id, licence)
  return purchase
}

/** Something has happened to a purchase that has landed. Once for its kind and cause. */
export function applyTo(place: Workplace, holding: Holding, effect: Effect): void {
  const { changes, plans } = place
  const { what, cause } = effect
  const planId = what.kind === 'renewed' ? what.planId : undefined
  const plan = planId === undefined ? undefined : planFor(place, effect, planId)
  const purchase = purchaseOf(holding, effect.purchaseRef) ?? register(place, holding, effect)
  if (what.kind === 'landed') return correctOrder(place, holding, effect, purchase)
  const known = holding.facts.some(
    (fact) => fact.purchase_ref === purchase.purchase_ref && fact.kind === what.kind && fact.cause === cause,
  )
  if (known) return
  const [rested, before] = [restsOn(holding), basisAt(holding, changes.now)]
  const fact = record(holding, purchase, { ...effect, what }, plan)
  changes.facts.push({ ...fact, licence_id: holding.licence.id })
  touch(changes, purchase)
  const news = { kind: what.kind, purchase, rested, before, after: basisAt(holding, changes.now) }
  settleHolding(changes, holding, plans, byProcessor(effect), news)
}

/** A purchase that lands again may have been registered before its order was known. */
function correctOrder(place: Workplace, holding: Holding, effect: Effect, purchase: Purchase): void {
  const { orderedAt } = effect
  if (orderedAt.getTime() === purchase.ordered_at?.getTime()) return
  purchase.ordered_at = orderedAt
  touch(place.changes, purchase)
  const rested = restsOn(holding)
  if (rested) holding.licence.rests_on = rested.purchase_ref
  place.changes.licences.set(holding.licence.id, holding.licence)
}

const byProcessor = ({ cause }: Effect) => ({ actor: 'processor', cause })

/** @throws ServiceError where the plan cannot be had */
function planFor({ plans }: Workplace, effect: Effect, planId: string): PlanRow {
  const plan = plans.get(planId)
  if (plan?.application_id !== effect.applicationId || plan.account_id !== effect.accountId) {
    throw planUnknown({ ...effect, planId })
  }
  if (plan.status === 'retired' && effect.what.kind === 'landed') {
    throw new ServiceError(
      'plan_archived',
      `plan ${plan.id} is retired: restore plan ${plan.id} first, then provision again`,
    )
  }
  return plan
}

function provisioned(changes: Changes, effect: Effect, licence: HeldLicence, created: boolean): void {
  const { applicationId, purchaseRef: paymentRef } = effect
  changes.provisions.push({ applicationId, paymentRef, licenceId: licence.id, created })
}

function newPurchase(
  effect: Effect,
  { endsAt }: Pick<Landed, 'endsAt'>,
  plan: Pick<PlanRow, 'id' | 'snapshot_id'>,
  licenceId: string,
): Purchase {
  return {
    application_id: effect.applicationId,
    purchase_ref: effect.purchaseRef,
    account_id: effect.accountId,
    licence_id: licenceId,
    ordered_at: effect.orderedAt,
    ...termsOf({ plan_id: plan.id, snapshot_id: plan.snapshot_id, expires_on: endsAt }),
    fell_at: null,
    given_back: false,
  }
}

function newLicence(effect: Effect, landed: Landed, plan: PlanRow, now: Date): HeldLicence {
  return {
    id: newId('lic'),
    key: newLicenceKey(),
    account_id: effect.accountId,
    application_id: effect.applicationId,
    plan_id: plan.id,
    status: initialStatus.bought.status,
    status_reason: null,
    external_ref: landed.externalRef,
    domains: [],
    max_activations: null,
    max_seats: null,
    expires_on: landed.endsAt,
    created_at: now,
    updated_at: now,
    expired_from: null,
    expired_from_reason: null,
    snapshot_id: plan.snapshot_id,
    rests_on: effect.purchaseRef,
    reactivated_at: null,
  }
}
