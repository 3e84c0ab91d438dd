import type { MessageInitShape } from '@bufbuild/protobuf'
import { timestampFromDate } from '@bufbuild/protobuf/wkt'
import type { Transaction } from '@licensing/database/connect'
import { isDatabaseUnavailable, isLockTimeout } from '@licensing/database/problems'
import { currentEpoch } from '@licensing/events/epoch-queries'
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
// A locked licence leaves time for the other effects.
const lockTimeout = {
  together: { lockTimeoutMs: 1_000, maxWaitMs: 0 },
  inParts: { lockTimeoutMs: 100, maxWaitMs: 0 },
}

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

/** Applies effects in their order. */
async function applyAll(deps: LicensingDependencies, received: ReceivedEffect[]): Promise<Result[]> {
  if (received.length === 0) return []
  return applyOrSplit(deps, await fetchUnknownPlans(deps, received), new Map(), 'together')
}

/**
 * Applies effects together. If they fail, those of each account are applied separately, and those of one account in halves
 * until the failing effect is found. So it fails no effects of other purchases.
 */
async function applyOrSplit(
  deps: LicensingDependencies,
  effects: ReceivedEffect[],
  refusals: Refusals,
  attempt: keyof typeof lockTimeout,
): Promise<Result[]> {
  try {
    return await applyInBatches(deps, effects, refusals, attempt)
  } catch (error) {
    if (affectsAllEffects(error)) throw error
    const [first] = effects
    if (effects.length === 1) return [refuse(deps, first!, error, refusals)]
    deps.log.warn(
      { err: error, effects: effects.length },
      'effects failed together; they are applied in parts',
    )
    const results = new Map<ReceivedEffect, Result>()
    for (const part of partsOf(effects)) {
      const done = await applyOrSplit(deps, part, refusals, 'inParts')
      part.forEach((effect, at) => results.set(effect, done[at]!))
    }
    return effects.map((effect) => results.get(effect)!)
  }
}

function partsOf(effects: ReceivedEffect[]): ReceivedEffect[][] {
  const byAccount = [...Map.groupBy(effects, ({ effect }) => effect.accountId).values()]
  if (byAccount.length > 1) return byAccount
  const half = Math.ceil(effects.length / 2)
  return [effects.slice(0, half), effects.slice(half)]
}

// A wait for a lock concerns only the licences that another transaction has locked.
const affectsAllEffects = (error: unknown) =>
  error instanceof GivenUp || (isDatabaseUnavailable(error) && !isLockTimeout(error))

/** Refuses an effect that cannot be applied now, and those that follow it on its purchase. Billing sends them again. */
function refuse(
  { log }: LicensingDependencies,
  { effect }: ReceivedEffect,
  error: unknown,
  refusals: Refusals,
): Result {
  const about = { err: error, purchase_ref: effect.purchaseRef }
  let refused = new ServiceError('unavailable', 'the licence is being changed: try again')
  if (isLockTimeout(error)) log.warn(about, 'an effect waited too long for a lock')
  else {
    log.error(about, 'an effect could not be applied')
    refused = new ServiceError('internal', 'something failed on our side')
  }
  refusals.set(purchaseName(effect), refused)
  return { refused }
}

/** Applies effects in as many transactions as `applyBatch` needs. */
async function applyInBatches(
  { change }: LicensingDependencies,
  effects: ReceivedEffect[],
  refusals: Refusals,
  attempt: keyof typeof lockTimeout,
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
    const batch = await change(applyRest, lockTimeout[attempt])
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
