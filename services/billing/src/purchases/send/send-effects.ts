import { create } from '@bufbuild/protobuf'
import type { MessageInitShape } from '@bufbuild/protobuf'
import { timestampFromDate } from '@bufbuild/protobuf/wkt'
import { ServiceError } from '@licensing/grpc/errors'
import { isErrorCode } from '@licensing/proto/errors'
import type { ErrorCode } from '@licensing/proto/errors'
import { PurchaseEffectSchema } from '@licensing/proto/purchases'
import type { PurchaseEffect, PurchaseEffectResult } from '@licensing/proto/purchases'
import type { BillingDependencies } from '../../dependencies.ts'
import type { EffectKind } from '../decide/decision.ts'
import {
  findHeldRevocations,
  findWaitingEffects,
  isSale,
  lockFulfilments,
  retryRefused,
  takeFulfilment,
} from './effect-queries.ts'
import type { EffectRow } from './effect-queries.ts'
import { recordResults } from './record-results.ts'
import type { CarriedEffect, Claimed, Outcome } from './record-results.ts'
import { ShareOut } from '../queue-rounds.ts'
import { lease, listOwners, queues } from '../queue-queries.ts'

const perRound = 200
// Of the RPC.
const mostEffects = 200

/** Effects of many purchases in one call, with no transaction open. @returns a round; it answers how many it took */
export function carryOutRounds(deps: BillingDependencies): () => Promise<number> {
  const share = new ShareOut(perRound, 100)
  return async () => {
    const list = (after: string, most: number) => listOwners(deps.sql, queues.effects, after, most)
    const { owners, each } = await share.next(list)
    if (owners.length === 0) return 0
    const claimed = await lease(deps.sql, queues.effects, owners, each)
    if (claimed.length > 0) await carryOut(deps, claimed)
    return claimed.length
  }
}

/** Carries out what waits of these purchases, which the caller has taken. */
async function carryOut(
  deps: BillingDependencies,
  claimed: Claimed[],
  quietly = false,
): Promise<CarriedEffect[]> {
  const refs = claimed.map((each) => each.purchase_ref)
  const waiting = await findWaitingEffects(deps.sql, refs)
  const held = await heldBack(deps, refs, waiting)
  const effects = waiting.filter((effect) => !held.includes(effect))
  const carried: CarriedEffect[] = held.map((effect) => ({ effect, outcome: { held: true } }))
  // An effect that did not take stops later ones of its own purchase, and no others.
  const stopped = new Set<string>()
  for (let from = 0; from < effects.length; from += mostEffects) {
    const batch = effects.slice(from, from + mostEffects).filter((each) => !stopped.has(each.purchase_ref))
    const sent = batch.filter((effect) => effect.kind !== null)
    const outcomes = await apply(deps, sent)
    for (const effect of batch) {
      if (stopped.has(effect.purchase_ref)) continue
      const outcome = effect.kind === null ? nothingChanged : outcomes.get(effect)!
      if (!('applied' in outcome)) stopped.add(effect.purchase_ref)
      carried.push({ effect, outcome })
    }
  }
  await record(deps, claimed, carried, quietly)
  return carried
}

/**
 * Revocations that must not be sent yet, and what follows them. This is checked right before they are sent, so that
 * neither an outage nor a restart makes billing forget what it knows.
 */
async function heldBack(
  { sql }: BillingDependencies,
  refs: string[],
  effects: EffectRow[],
): Promise<EffectRow[]> {
  if (!effects.some((effect) => effect.kind === 'given_back')) return []
  const revocations = await findHeldRevocations(sql, refs)
  const heldFrom = new Map<string, bigint>()
  for (const { purchase_ref: ref, position } of effects) {
    if (revocations.has(position) && !heldFrom.has(ref)) heldFrom.set(ref, position)
  }
  return effects.filter(({ purchase_ref: ref, position }) => position >= (heldFrom.get(ref) ?? Infinity))
}

/** A batch that cannot be recorded is recorded one by one. */
async function record(
  deps: BillingDependencies,
  claimed: Claimed[],
  carried: CarriedEffect[],
  quietly: boolean,
): Promise<void> {
  try {
    await deps.outbox.transaction((tx) => recordResults(tx, claimed, carried, quietly))
  } catch (error) {
    if (claimed.length === 1) throw error
    deps.log.warn({ err: error, purchases: claimed.length }, 'effects not recorded together: one by one')
    for (const one of claimed) {
      const own = carried.filter(({ effect }) => effect.purchase_ref === one.purchase_ref)
      await record(deps, [one], own, quietly).catch((alone: unknown) =>
        deps.log.error({ err: alone, purchase: one.purchase_ref }, 'effects not recorded'),
      )
    }
  }
}

/**
 * Provisions a purchase whose provisioning was refused, at once, and with it all that has happened since.
 *
 * @returns false where nothing of it was refused
 * @throws ServiceError why it is refused again, or `unavailable`: then it is tried in the background
 */
export async function replay(deps: BillingDependencies, purchaseRef: string): Promise<boolean> {
  const isRetried = await deps.outbox.transaction(async (tx) => {
    await lockFulfilments(tx, [purchaseRef])
    return retryRefused(tx, purchaseRef)
  })
  if (isRetried) await provisionNow(deps, purchaseRef, true)
  return isRetried
}

/** What somebody else is carrying out is done by the caller too: licensing does it once. */
export async function takeOver(deps: BillingDependencies, purchaseRef: string): Promise<void> {
  await takeFulfilment(deps.sql, purchaseRef)
  await provisionNow(deps, purchaseRef)
}

/**
 * Carries out what waits of a purchase for a caller who waits for it, and has taken it.
 *
 * @param quietly a refusal is reported by the caller
 */
export async function provisionNow(
  deps: BillingDependencies,
  purchaseRef: string,
  quietly = false,
): Promise<void> {
  const carried = await carryOut(deps, [{ purchase_ref: purchaseRef, attempts: 0 }], quietly)
  for (const { effect, outcome } of carried) {
    if (effect.kind !== 'landed' || 'applied' in outcome || 'held' in outcome) continue
    if ('refused' in outcome) throw outcome.refused
    throw outcome.failed instanceof ServiceError
      ? outcome.failed
      : new ServiceError('unavailable', 'the licensing service is temporarily unavailable')
  }
}

/** Sends effects to licensing. Where the call as a whole fails and licensing is there, it is made purchase by purchase. */
async function apply(deps: BillingDependencies, effects: EffectRow[]): Promise<Map<EffectRow, Outcome>> {
  if (effects.length === 0) return new Map()
  try {
    const { results } = await deps.purchases.applyPurchaseEffects({ effects: effects.map(messageOf) })
    return new Map(effects.map((effect, at) => [effect, outcomeOf(effect, results[at])]))
  } catch (error) {
    const groups = Map.groupBy(effects, (effect) => effect.purchase_ref)
    deps.log.warn({ err: error, purchases: groups.size }, 'effects not applied')
    if (groups.size === 1 || (error instanceof ServiceError && error.code === 'unavailable')) {
      return new Map(effects.map((effect) => [effect, { failed: error }]))
    }
    const outcomes: [EffectRow, Outcome][] = []
    for (const group of groups.values()) outcomes.push(...(await apply(deps, group)))
    return new Map(outcomes)
  }
}

const nothingChanged: Outcome = { applied: { licenceId: undefined, status: undefined } }

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
      return effect.kind === 'landed' ? { refused: new ServiceError(known, detail) } : nothingChanged
    }
    default:
      return { failed: new Error('licensing gave no result') }
  }
}

const passing: ReadonlySet<ErrorCode> = new Set(['unavailable', 'internal', 'rate_limited'])

/** What passes by itself is tried again; what does not needs the vendor. */
export function isPassing(code: ErrorCode): boolean {
  return passing.has(code)
}

/** An effect as licensing is sent it. */
function messageOf(row: EffectRow): PurchaseEffect {
  return create(PurchaseEffectSchema, {
    accountId: row.account_id,
    applicationId: row.application_id,
    // A sale goes by the shop's own id, as it always has.
    purchaseRef: isSale(row.purchase_ref) ? row.cause : row.purchase_ref,
    cause: row.cause,
    at: timestampFromDate(row.at),
    orderedAt: timestampFromDate(row.ordered_at),
    kind: kindOf(row),
  })
}

type Kind = NonNullable<MessageInitShape<typeof PurchaseEffectSchema>['kind']>

const plainKinds = {
  payments_failed: 'paymentsFailed',
  inquiry_opened: 'inquiryOpened',
  inquiry_closed: 'inquiryClosed',
  partly_refunded: 'partlyRefunded',
  cancelled: 'cancelled',
  reordered: 'reordered',
} as const satisfies Record<Exclude<EffectKind, 'landed' | 'renewed' | 'given_back'>, Kind['case']>

function kindOf(row: EffectRow): Kind {
  const endsAt = row.ends_at ? { endsAt: timestampFromDate(row.ends_at) } : {}
  switch (row.kind) {
    case 'landed':
      return { case: 'landed', value: { planId: row.plan_id!, externalRef: row.external_ref!, ...endsAt } }
    case 'renewed':
      return { case: 'renewed', value: { ...endsAt, ...(row.plan_id !== null && { planId: row.plan_id }) } }
    case 'given_back':
      return { case: 'givenBack', value: { chargedBack: row.charged_back } }
    case null:
      throw new Error('an effect that changes no licence is not sent')
    default:
      return { case: plainKinds[row.kind], value: {} }
  }
}
