import type { MessageInitShape } from '@bufbuild/protobuf'
import { longLockTimeout } from '@licensing/changes/change'
import { timestampFromDate } from '@bufbuild/protobuf/wkt'
import type { Transaction } from '@licensing/database/connect'
import { isDatabaseUnavailable } from '@licensing/database/problems'
import { currentEpoch } from '@licensing/events/epoch'
import { invalid, ServiceError } from '@licensing/grpc/errors'
import { GivenUp, refuseGivenUp } from '@licensing/grpc/given-up'
import { implement } from '@licensing/grpc/server'
import { PurchaseService } from '@licensing/proto/purchases'
import type {
  ApplyPurchaseEffectsRequest,
  ApplyPurchaseEffectsResponseSchema,
  PurchaseEffect,
  PurchaseEffectResultSchema,
} from '@licensing/proto/purchases'
import type { LicensingDependencies } from '../dependencies.ts'
import { licenceMessage } from '../lifecycle/licence-row.ts'
import { askCatalog, planUnavailable } from '../plans/ask-catalog.ts'
import { findKnownPlans } from '../plans/plan-queries.ts'
import { applyBatch, planIdsOf, purchaseName } from './apply-batch.ts'
import type { ReceivedEffect, Refusals, Result } from './apply-batch.ts'
import { planIdOf, readEffect, unreadable } from './effect.ts'

const maxEffects = 200

export function purchaseService(deps: LicensingDependencies) {
  return implement(PurchaseService, {
    applyPurchaseEffects: (request) => applyPurchaseEffects(deps, request),
  })
}

async function applyPurchaseEffects(
  deps: LicensingDependencies,
  { effects, epoch: seen }: ApplyPurchaseEffectsRequest,
): Promise<MessageInitShape<typeof ApplyPurchaseEffectsResponseSchema>> {
  if (effects.length > maxEffects) throw invalid('/effects', `at most ${maxEffects} effects`)
  // If the database is replaced after this, the caller learns the next epoch from its next call.
  const { ordinal, aliveAt } = await currentEpoch(deps.sql, seen)
  const results = await applyAll(deps, effects.map(read))
  return { results: results.map(resultMessage), epoch: { ordinal, aliveAt: timestampFromDate(aliveAt) } }
}

function read(request: PurchaseEffect): ReceivedEffect {
  try {
    return { effect: readEffect(request) }
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error
    return { effect: unreadable(request), refusal: error }
  }
}

/** Applies effects in their order. If the database refuses a batch, its effects are applied one by one. */
async function applyAll(deps: LicensingDependencies, received: ReceivedEffect[]): Promise<Result[]> {
  if (received.length === 0) return []
  const effects = await fetchUnknownPlans(deps, received)
  try {
    return await applyInBatches(deps, effects, new Map())
  } catch (error) {
    if (effects.length === 1 || affectsAllEffects(error)) throw error
    deps.log.warn({ err: error }, 'a batch of effects failed; they are applied one by one')
  }
  const refusals: Refusals = new Map()
  const results: Result[] = []
  for (const effect of effects) results.push(await applyAlone(deps, effect, refusals))
  return results
}

const affectsAllEffects = (error: unknown) => isDatabaseUnavailable(error) || error instanceof GivenUp

async function applyAlone(
  deps: LicensingDependencies,
  effect: ReceivedEffect,
  refusals: Refusals,
): Promise<Result> {
  try {
    return (await applyInBatches(deps, [effect], refusals))[0]!
  } catch (error) {
    if (affectsAllEffects(error)) throw error
    deps.log.error({ err: error, purchase_ref: effect.effect.purchaseRef }, 'an effect could not be applied')
    const refused = new ServiceError('internal', 'something failed on our side')
    refusals.set(purchaseName(effect.effect), refused)
    return { refused }
  }
}

/** Applies effects in as many transactions as `applyBatch` needs. */
async function applyInBatches(
  { change }: LicensingDependencies,
  effects: ReceivedEffect[],
  refusals: Refusals,
): Promise<Result[]> {
  const results: Result[] = []
  while (results.length < effects.length) {
    const rest = effects.slice(results.length)
    // If the transaction is rolled back, its refusals are dropped.
    const applyRest = async (tx: Transaction) => {
      const refused = new Map(refusals)
      const done = await applyBatch(tx, rest, refused)
      refuseGivenUp()
      return { done, refused }
    }
    const batch = await change(applyRest, longLockTimeout)
    for (const [name, refusal] of batch.refused) refusals.set(name, refusal)
    results.push(...batch.done)
  }
  return results
}

/** Asks catalog for plans that licensing does not know, with no transaction open. */
async function fetchUnknownPlans(
  deps: LicensingDependencies,
  effects: ReceivedEffect[],
): Promise<ReceivedEffect[]> {
  const wanted = planIdsOf(effects)
  if (wanted.length === 0) return effects
  const known = await findKnownPlans(deps.sql, wanted)
  const unavailable = new Set<string>()
  for (const planId of wanted.filter((one) => !known.has(one))) {
    const asking = effects.find(({ effect }) => planIdOf(effect) === planId)
    const answer = await askCatalog(deps, { ...asking!.effect, planId })
    if (answer === 'unavailable') unavailable.add(planId)
  }
  return effects.map((one) => {
    const planId = planIdOf(one.effect)
    return planId !== undefined && unavailable.has(planId)
      ? { ...one, refusal: planUnavailable(planId) }
      : one
  })
}

function resultMessage(result: Result): MessageInitShape<typeof PurchaseEffectResultSchema> {
  if ('refused' in result) {
    const { code, message: detail } = result.refused
    return { outcome: { case: 'refused', value: { code, detail } } }
  }
  const { licence, created } = result
  return { outcome: { case: 'applied', value: { licence: licenceMessage(licence), created } } }
}
