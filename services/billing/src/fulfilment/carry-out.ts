import { ServiceError } from '@licensing/grpc/errors'
import { isErrorCode } from '@licensing/proto/errors'
import type { PurchaseEffectResult } from '@licensing/proto/purchases'
import type { BillingDependencies } from '../dependencies.ts'
import { isPassing } from './carried-effect.ts'
import type { CarriedEffect, Outcome } from './carried-effect.ts'
import { effectMessage } from './effect-message.ts'
import { claimCarrying, findWaitingEffects, listCarryingAccounts } from './effect-queries.ts'
import type { Claimed, EffectRow } from './effect-queries.ts'
import { recordResults } from './record-results.ts'
import { ShareOut } from './share-out.ts'
import { timing } from './timing.ts'

const perRound = 200
// Of the RPC.
const mostEffects = 200

/** Effects of many purchases in one call, with no transaction open. @returns a round; it answers how many it took */
export function carryOutRounds(deps: BillingDependencies): () => Promise<number> {
  const share = new ShareOut(perRound, 100)
  return async () => {
    const { owners, each } = await share.next((after, most) => listCarryingAccounts(deps.sql, after, most))
    if (owners.length === 0) return 0
    const claimed = await claimCarrying(deps.sql, owners, each, timing.claim)
    if (claimed.length > 0) await carryOut(deps, claimed)
    return claimed.length
  }
}

/**
 * Carries out what waits of these purchases, which the caller has taken.
 *
 * @param options.quietly a refusal is the caller's to report
 */
export async function carryOut(
  deps: BillingDependencies,
  claimed: Claimed[],
  options: { quietly?: boolean } = {},
): Promise<CarriedEffect[]> {
  const effects = await findWaitingEffects(
    deps.sql,
    claimed.map((each) => each.purchase_ref),
  )
  const carried: CarriedEffect[] = []
  for (let from = 0; from < effects.length; from += mostEffects) {
    carried.push(...(await apply(deps, effects.slice(from, from + mostEffects), carried)))
  }
  await record(deps, claimed, carried, options)
  return carried
}

/** A batch that cannot be recorded is recorded one by one. */
async function record(
  deps: BillingDependencies,
  claimed: Claimed[],
  carried: CarriedEffect[],
  options: { quietly?: boolean },
): Promise<void> {
  try {
    await deps.outbox.transaction(async (tx) => {
      await recordResults(tx, claimed, carried, options)
    })
  } catch (error) {
    if (claimed.length === 1) throw error
    deps.log.warn({ err: error, purchases: claimed.length }, 'effects not recorded together: one by one')
    for (const one of claimed) {
      const own = carried.filter(({ effect }) => effect.purchase_ref === one.purchase_ref)
      await record(deps, [one], own, options).catch((alone: unknown) =>
        deps.log.error({ err: alone, purchase: one.purchase_ref }, 'effects not recorded'),
      )
    }
  }
}

/** An effect that did not take stops later ones of its own purchase, and no others. */
async function apply(
  deps: BillingDependencies,
  effects: EffectRow[],
  before: CarriedEffect[],
): Promise<CarriedEffect[]> {
  const stopped = new Set(
    before.filter(({ outcome }) => !('applied' in outcome)).map(({ effect }) => effect.purchase_ref),
  )
  const sent = effects.filter((effect) => effect.kind !== null && !stopped.has(effect.purchase_ref))
  const outcomes = new Map<bigint, Outcome>()
  for (const { effect, outcome } of await send(deps, sent)) outcomes.set(effect.position, outcome)
  const carried: CarriedEffect[] = []
  for (const effect of effects) {
    if (stopped.has(effect.purchase_ref)) continue
    const nothing: Outcome = { applied: { licenceId: undefined, status: undefined } }
    const outcome = effect.kind === null ? nothing : (outcomes.get(effect.position) ?? { failed: undefined })
    if (!('applied' in outcome)) stopped.add(effect.purchase_ref)
    carried.push({ effect, outcome })
  }
  return carried
}

/** Where the call as a whole fails and licensing is there, it is made purchase by purchase. */
async function send(deps: BillingDependencies, effects: EffectRow[]): Promise<CarriedEffect[]> {
  if (effects.length === 0) return []
  try {
    const { results } = await deps.purchases.applyPurchaseEffects({ effects: effects.map(effectMessage) })
    return effects.map((effect, at) => ({ effect, outcome: outcomeOf(effect, results[at]) }))
  } catch (error) {
    const groups = Map.groupBy(effects, (effect) => effect.purchase_ref)
    deps.log.warn({ err: error, purchases: groups.size }, 'effects not applied')
    if (groups.size === 1 || (error instanceof ServiceError && error.code === 'unavailable')) {
      const outcome = { failed: error }
      return effects.map((effect) => ({ effect, outcome }))
    }
    const alone: CarriedEffect[] = []
    for (const group of groups.values()) alone.push(...(await send(deps, group)))
    return alone
  }
}

function outcomeOf(effect: EffectRow, result: PurchaseEffectResult | undefined): Outcome {
  switch (result?.outcome.case) {
    case 'applied': {
      const { licence } = result.outcome.value
      return { applied: { licenceId: licence?.id, status: licence?.status } }
    }
    case 'refused': {
      const { code, detail } = result.outcome.value
      const known = isErrorCode(code) ? code : 'internal'
      if (isPassing(known)) return { failed: new ServiceError(known, detail) }
      // A licence that is gone can have no consequences: that must not stop the rest.
      if (effect.kind !== 'landed') return { applied: { licenceId: undefined, status: undefined } }
      return { refused: new ServiceError(known, detail) }
    }
    default:
      return { failed: new Error('licensing gave no result') }
  }
}
