import type { MessageInitShape } from '@bufbuild/protobuf'
import { isDatabaseUnavailable } from '@licensing/database/problems'
import { invalid, ServiceError } from '@licensing/grpc/errors'
import { GivenUp, refuseGivenUp } from '@licensing/grpc/given-up'
import type {
  ApplyPurchaseEffectsRequest,
  ApplyPurchaseEffectsResponseSchema,
  PurchaseEffect,
  PurchaseEffectResultSchema,
} from '@licensing/proto/purchases'
import type { LicensingDependencies } from '../dependencies.ts'
import { untilSettled } from '../lifecycle/until-settled.ts'
import { licenceMessage } from '../lifecycle/licence-row.ts'
import { askCatalog, planUnavailable } from '../plans/ask-catalog.ts'
import { findKnownPlans } from '../plans/plan-queries.ts'
import { applyBatch, planIdsOf, purchaseName } from './apply-batch.ts'
import type { Asked, Refusals, Result } from './apply-batch.ts'
import { planIdOf, readEffect, unreadable } from './effect.ts'

const mostEffects = 200

export async function applyPurchaseEffects(
  deps: LicensingDependencies,
  { effects }: ApplyPurchaseEffectsRequest,
): Promise<MessageInitShape<typeof ApplyPurchaseEffectsResponseSchema>> {
  if (effects.length > mostEffects) throw invalid('/effects', `at most ${mostEffects} effects`)
  const results = await applyAll(deps, effects.map(read))
  return { results: results.map(resultMessage) }
}

function read(request: PurchaseEffect): Asked {
  try {
    return { effect: readEffect(request) }
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error
    return { effect: unreadable(request), refusal: error }
  }
}

/** Applies effects in their order; a batch that the database refuses is done again one by one. */
async function applyAll(deps: LicensingDependencies, asked: Asked[]): Promise<Result[]> {
  if (asked.length === 0) return []
  const refusals: Refusals = new Map()
  const effects = await withPlans(deps, asked)
  try {
    return await inTurns(deps, effects, new Map())
  } catch (error) {
    if (effects.length === 1 || isForAll(error)) throw error
    deps.log.warn({ err: error }, 'a batch of effects failed; they are applied one by one')
  }
  const results: Result[] = []
  for (const effect of effects) results.push(await alone(deps, effect, refusals))
  return results
}

const isForAll = (error: unknown) => isDatabaseUnavailable(error) || error instanceof GivenUp

async function alone(deps: LicensingDependencies, effect: Asked, refusals: Refusals): Promise<Result> {
  try {
    return (await inTurns(deps, [effect], refusals))[0]!
  } catch (error) {
    if (isForAll(error)) throw error
    deps.log.error({ err: error, purchase_ref: effect.effect.purchaseRef }, 'an effect could not be applied')
    const refused = new ServiceError('internal', 'something failed on our side')
    refusals.set(purchaseName(effect.effect), refused)
    return { refused }
  }
}

async function inTurns(
  { outbox }: LicensingDependencies,
  effects: Asked[],
  refusals: Refusals,
): Promise<Result[]> {
  const results: Result[] = []
  while (results.length < effects.length) {
    const rest = effects.slice(results.length)
    // What a transaction that is undone has refused is asked again.
    const turn = await untilSettled(async () => {
      const refused = new Map(refusals)
      const done = await outbox.transaction(async (tx) => {
        const results = await applyBatch(tx, rest, refused)
        // A purchase that was refused meanwhile stays refused until it is sent again.
        refuseGivenUp()
        return results
      })
      return { done, refused }
    })
    for (const [name, refusal] of turn.refused) refusals.set(name, refusal)
    results.push(...turn.done)
  }
  return results
}

/** Plans that are not known here are asked of catalog, with no transaction open. */
async function withPlans(deps: LicensingDependencies, effects: Asked[]): Promise<Asked[]> {
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
