import { messageOf } from '@licensing/grpc/fields'
import { longLockTimeout } from '@licensing/changes/change'
import { isTimeout, ServiceError } from '@licensing/grpc/errors'
import { errorCatalogue, isErrorCode } from '@licensing/proto/errors'
import type { ErrorCode } from '@licensing/proto/errors'
import { PurchaseEffectSchema } from '@licensing/proto/purchases'
import type { PurchaseEffect, PurchaseEffectResult } from '@licensing/proto/purchases'
import { Counter } from 'prom-client'
import type { BillingDependencies } from '../dependencies.ts'
import { lease, listOwners, queues } from '../queues/queue-queries.ts'
import type { DuePurchase } from '../queues/queue-queries.ts'
import { Shares } from '../queues/queue-rounds.ts'
import { isRevocation } from './effect.ts'
import {
  findPostponedRevocations,
  findWaitingEffects,
  leaseSending,
  lockPurchases,
  releaseSending,
  retryRefused,
} from './effect-queries.ts'
import type { EffectRow } from './effect-queries.ts'
import { recordResults } from './record-results.ts'
import type { LeasedPurchase, SendResult, SentEffect } from './record-results.ts'
import { adopt } from './resend-effects.ts'
import { findLicensingEpoch } from './resend-queries.ts'

const perRound = 200
// The limit of the RPC.
const maxEffects = 200

/** @returns a round, which sends the effects of many purchases and returns how many purchases it took */
export function createSendRound(deps: BillingDependencies): () => Promise<number> {
  const shares = new Shares(perRound, 100)
  return async () => {
    const list = (after: string, limit: number) => listOwners(deps.sql, queues.send, after, limit)
    const { owners, each } = await shares.next(list)
    if (owners.length === 0) return 0
    const leased = await lease(deps.sql, queues.send, owners, each)
    const { usual = [], late = [] } = Object.groupBy(leased, (each) => (each.is_late ? 'late' : 'usual'))
    // A purchase of a batch that licensing did not answer in time is sent alone, one of each account at a time.
    const [alone, rest] = firstOfEach(late)
    await releaseSending(deps.sql, rest)
    await Promise.all([usual, ...alone].map((batch) => sendEffects(deps, batch)))
    return leased.length
  }
}

function firstOfEach(late: DuePurchase[]): [alone: DuePurchase[][], rest: string[]] {
  const byAccount = [...Map.groupBy(late, (each) => each.account_id).values()]
  const rest = byAccount.flatMap((own) => own.slice(1).map((each) => each.purchase_ref))
  return [byAccount.map((own) => own.slice(0, 1)), rest]
}

/** Sends the waiting effects of purchases that the caller has leased, with no transaction open, and records the results. */
async function sendEffects(deps: BillingDependencies, leased: LeasedPurchase[]): Promise<SentEffect[]> {
  if (leased.length === 0) return []
  const refs = leased.map((each) => each.purchase_ref)
  const [waiting, epoch] = await Promise.all([
    findWaitingEffects(deps.sql, refs),
    findLicensingEpoch(deps.sql),
  ])
  const postponed = await postponedAmong(deps, refs, waiting)
  const effects = waiting.filter((effect) => !postponed.includes(effect))
  const sent: SentEffect[] = postponed.map((effect) => ({ effect, result: { postponed: true } }))
  // An effect that was not applied stops later effects of its own purchase, but not of other purchases.
  const stopped = new Set<string>()
  for (let from = 0; from < effects.length; from += maxEffects) {
    const batch = effects.slice(from, from + maxEffects).filter((each) => !stopped.has(each.purchase_ref))
    const toSend = batch.filter((effect) => effect.kind !== null)
    const results = await apply(deps, epoch, toSend)
    for (const effect of batch) {
      if (stopped.has(effect.purchase_ref)) continue
      const result = effect.kind === null ? notSent : results.get(effect)!
      if (!('applied' in result)) stopped.add(effect.purchase_ref)
      if ('lost' in result) reportLost(deps, effect)
      sent.push({ effect, result })
    }
  }
  await record(deps, leased, sent)
  return sent
}

const lostEffects = new Counter({
  name: 'purchase_effects_lost_total',
  help: 'Effects whose purchase licensing did not know, although its payment was applied',
  labelNames: ['kind'],
})

function reportLost({ log }: BillingDependencies, effect: EffectRow): void {
  const { account_id: account, purchase_ref: purchase, kind } = effect
  log.warn({ account, purchase, kind }, 'licensing does not know a purchase that was paid: it is sent again')
  lostEffects.inc({ kind: kind! })
}

/**
 * Revocations that must not be sent yet, with the effects that follow them. They are looked up right before each sending, so
 * that an outage or a restart does not change the result.
 */
async function postponedAmong(
  { sql }: BillingDependencies,
  refs: string[],
  effects: EffectRow[],
): Promise<EffectRow[]> {
  if (!effects.some(isRevocation)) return []
  const revocations = await findPostponedRevocations(sql, refs)
  const postponedFrom = new Map<string, bigint>()
  for (const { purchase_ref: ref, position } of effects) {
    if (revocations.has(position) && !postponedFrom.has(ref)) postponedFrom.set(ref, position)
  }
  return effects.filter(({ purchase_ref: ref, position }) => position >= (postponedFrom.get(ref) ?? Infinity))
}

/** If the results of a batch cannot be recorded together, they are recorded purchase by purchase. */
async function record(
  deps: BillingDependencies,
  leased: LeasedPurchase[],
  sent: SentEffect[],
): Promise<void> {
  try {
    await deps.change((tx) => recordResults(tx, leased, sent), longLockTimeout)
  } catch (error) {
    if (leased.length === 1) throw error
    deps.log.warn(
      { err: error, purchases: leased.length },
      'results not recorded together: they are recorded one by one',
    )
    for (const one of leased) {
      const own = sent.filter(({ effect }) => effect.purchase_ref === one.purchase_ref)
      await record(deps, [one], own).catch((alone: unknown) =>
        deps.log.error({ err: alone, purchase: one.purchase_ref }, 'results not recorded'),
      )
    }
  }
}

/**
 * Sends at once a purchase that licensing refused, with all its effects since.
 *
 * @returns false if none of its effects was refused
 * @throws ServiceError why it is refused again; `unavailable` if it is tried again in the background
 */
export async function replay(deps: BillingDependencies, purchaseRef: string): Promise<boolean> {
  const isRetried = await deps.change(async (tx) => {
    await lockPurchases(tx, [purchaseRef])
    const isRefused = await retryRefused(tx, [purchaseRef])
    if (isRefused) await leaseSending(tx, purchaseRef)
    return isRefused
  })
  if (isRetried) await provisionNow(deps, purchaseRef)
  return isRetried
}

/** Sends a purchase at once, even if a replica is just sending it: licensing applies each effect once. */
export async function provisionAgain(deps: BillingDependencies, purchaseRef: string): Promise<void> {
  await leaseSending(deps.sql, purchaseRef)
  await provisionNow(deps, purchaseRef)
}

/**
 * Sends the waiting effects of a purchase that the caller has leased, for a request that waits for the licence.
 *
 * @throws ServiceError if no licence was provisioned
 */
export async function provisionNow(deps: BillingDependencies, purchaseRef: string): Promise<void> {
  const sent = await sendEffects(deps, [{ purchase_ref: purchaseRef, attempts: 0, is_late: false }])
  for (const { effect, result } of sent) {
    if (effect.kind !== 'paid' || 'applied' in result || 'postponed' in result) continue
    if ('refused' in result) throw result.refused
    throw 'failed' in result && result.failed instanceof ServiceError
      ? result.failed
      : new ServiceError('unavailable', 'the licensing service is temporarily unavailable')
  }
}

/**
 * Sends the waiting effects of a purchase that the caller has leased, for a request that waits for their result.
 *
 * @throws ServiceError `unavailable` if they are tried again in the background
 */
export async function sendNow(deps: BillingDependencies, purchaseRef: string): Promise<void> {
  const sent = await sendEffects(deps, [{ purchase_ref: purchaseRef, attempts: 0, is_late: false }])
  if (!sent.some(({ result }) => 'failed' in result || 'lost' in result)) return
  throw new ServiceError('unavailable', 'the licensing service is temporarily unavailable')
}

/** Sends effects. If the whole call fails although licensing is available, it is repeated purchase by purchase. */
async function apply(
  deps: BillingDependencies,
  epoch: bigint,
  effects: EffectRow[],
): Promise<Map<EffectRow, SendResult>> {
  if (effects.length === 0) return new Map()
  try {
    const answer = await deps.purchases.applyPurchaseEffects({ effects: effects.map(effectMessage), epoch })
    const ordinal = await adopt(deps, answer)
    return new Map(effects.map((effect, at) => [effect, resultOf(effect, answer.results[at], ordinal)]))
  } catch (error) {
    const groups = Map.groupBy(effects, (effect) => effect.purchase_ref)
    deps.log.warn({ err: error, purchases: groups.size }, 'effects not applied')
    if (groups.size === 1 || (error instanceof ServiceError && error.code === 'unavailable')) {
      const failed = { failed: error, isLate: isTimeout(error) }
      return new Map(effects.map((effect) => [effect, failed]))
    }
    const results: [EffectRow, SendResult][] = []
    for (const group of groups.values()) results.push(...(await apply(deps, epoch, group)))
    return new Map(results)
  }
}

/** The result of an effect that changes no licence. */
const notSent: SendResult = {
  applied: { licenceId: undefined, planId: undefined, status: undefined, epoch: undefined },
}

function resultOf(effect: EffectRow, answer: PurchaseEffectResult | undefined, epoch: bigint): SendResult {
  switch (answer?.outcome.case) {
    case 'applied': {
      const { licence } = answer.outcome.value
      return { applied: { licenceId: licence?.id, planId: licence?.planId, status: licence?.status, epoch } }
    }
    case 'refused': {
      const { code, detail } = answer.outcome.value
      const known = isErrorCode(code) ? code : 'internal'
      if (isTransient(known)) return { failed: new ServiceError(known, detail) }
      const refused = new ServiceError(known, detail)
      // Licensing has lost the payment that came before.
      if (effect.kind !== 'paid' && known === 'not_found') return { lost: refused }
      return { refused }
    }
    default:
      return { failed: new Error('licensing gave no result') }
  }
}

/** Whether a retry may succeed without the vendor doing anything. */
export function isTransient(code: ErrorCode): boolean {
  const { http } = errorCatalogue[code]
  return http === 429 || http >= 500
}

function effectMessage(row: EffectRow): PurchaseEffect {
  const metadata = row.metadata && { entries: row.metadata }
  return messageOf(PurchaseEffectSchema, { ...row, kind: row.kind!, purchase_ref: row.known_as, metadata })
}
