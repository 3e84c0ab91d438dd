import type { Transaction } from '@licensing/database/connect'
import { append } from '@licensing/events/outbox'
import type { NewEvent } from '@licensing/events/outbox'
import type { ServiceError } from '@licensing/grpc/errors'
import type { LicenceStatus } from '@licensing/proto/closed-sets'
import { alertVendors } from '../alerts/alert-vendor.ts'
import type { DuePurchase } from '../queues/queue-queries.ts'
import { maxPostponements } from '../timing.ts'
import { isEnd, isRevocation, isSale } from './effect.ts'
import {
  findLostRenewals,
  finishEffects,
  isAfterCancellation,
  lockPurchases,
  refuseEffects,
  retryRefused,
  writeSent,
} from './effect-queries.ts'
import type { EffectRow, LostRenewal } from './effect-queries.ts'
import { failToProvision, markRefundsProcessed, provision } from './provision-queries.ts'
import { holdLicensingEpoch, markReported, resendPurchases } from './resend-queries.ts'

/** A purchase whose effects are being sent. */
export type LeasedPurchase = Pick<DuePurchase, 'purchase_ref' | 'attempts' | 'is_late'>

/** The result of sending an effect to licensing. */
export type SendResult =
  | { applied: AppliedEffect }
  | { refused: ServiceError }
  /** Licensing does not know the purchase, although its payment was applied. */
  | { lost: ServiceError }
  /** `isLate`: licensing did not answer in time. */
  | { failed: unknown; isLate?: boolean }
  | { postponed: true }

interface AppliedEffect {
  licenceId: string | undefined
  planId: string | undefined
  status: string | undefined
  /** The epoch of licensing's database that answered; undefined if the effect was not sent. */
  epoch: bigint | undefined
}

export interface SentEffect {
  effect: EffectRow
  result: SendResult
}

/** Records the results of effects, and notifies the vendors, in one transaction. A repetition changes nothing. */
export async function recordResults(
  tx: Transaction,
  leased: LeasedPurchase[],
  results: SentEffect[],
): Promise<void> {
  const epoch = await holdLicensingEpoch(tx)
  const sent = results.map((each) => (isOutdated(each, epoch) ? { ...each, result: outdated } : each))
  const refs = leased.map((each) => each.purchase_ref)
  const plans = await lockPurchases(tx, refs)
  const positions = sent.flatMap(({ effect, result }) => ('applied' in result ? [effect.position] : []))
  const finished = await finishEffects(tx, positions)
  const applied = sent.filter(({ effect }) => finished.has(effect.position))
  for (const { effect, result } of applied) {
    if ('applied' in result && result.applied.planId) plans.set(effect.purchase_ref, result.applied.planId)
  }
  const succeeded = await recordProvisioned(tx, applied, plans)
  const failures = await recordFailedProvisions(tx, sent)
  const refunded = await recordProcessedRefunds(tx, applied, plans)
  await append(tx, ...succeeded, ...failures, ...refunded)
  await alertLostRenewals(tx, applied)
  await resendLost(tx, sent)
  await writeSent(
    tx,
    leased.map(({ purchase_ref, attempts }) => {
      const own = sent.flatMap(({ effect, result }) => (effect.purchase_ref === purchase_ref ? [result] : []))
      const isLate = own.some((result) => 'failed' in result && result.isLate === true)
      const of = { purchase_ref, licence_plan_id: plans.get(purchase_ref) ?? null }
      // An outage of licensing does not use up postponements, so that a revocation can still be prevented afterwards.
      if (own.some((result) => 'failed' in result || 'lost' in result)) {
        return { ...of, attempts: Math.min(attempts, maxPostponements / 2) + 1, is_late: isLate }
      }
      const isPostponed = own.some((result) => 'postponed' in result)
      return { ...of, attempts: isPostponed ? attempts + 1 : 0, is_late: false }
    }),
  )
}

/** Whether licensing's database was restored from a backup since it applied the effect. */
function isOutdated({ result }: SentEffect, epoch: bigint): boolean {
  return 'applied' in result && result.applied.epoch !== undefined && result.applied.epoch < epoch
}

const outdated: SendResult = {
  failed: new Error('the database of licensing was restored from a backup meanwhile'),
}

/**
 * Sends all effects of a purchase again whose payment licensing has lost, the payment first. Until it is known again, later
 * effects wait. The vendor is alerted once if a customer pays for it. No kind of alert fits the other effects.
 */
async function resendLost(tx: Transaction, sent: SentEffect[]): Promise<void> {
  const lost = sent.flatMap(({ effect, result }) => ('lost' in result ? [effect] : []))
  if (lost.length === 0) return
  await resendPurchases(
    tx,
    lost.map((effect) => effect.purchase_ref),
  )
  const renewals = lost.filter((effect) => effect.kind === 'renewed')
  const unreported = await markReported(
    tx,
    renewals.map((effect) => effect.position),
  )
  for (const { position, cause, purchase_ref: ref, account_id, application_id } of renewals) {
    if (!unreported.has(position)) continue
    const alert = {
      kind: 'renewal_without_licence' as const,
      subject: `A renewal was paid on purchase ${ref}, whose licence is unknown`,
      text: `Invoice ${cause} of purchase ${ref} was paid, and its licence is unknown, probably because a backup was restored. The purchase is applied again. Check that the customer has a licence, with its new key if it has one.`,
    }
    await alertVendors(tx, [account_id], alert, application_id)
  }
}

/** The plans of purchases' licences, by purchase. */
type LicencePlans = ReadonlyMap<string, string | null>

async function recordProvisioned(
  tx: Transaction,
  applied: SentEffect[],
  plans: LicencePlans,
): Promise<NewEvent[]> {
  const licences = applied.flatMap(({ effect, result }) =>
    effect.kind === 'paid' && 'applied' in result && result.applied.licenceId !== undefined
      ? [{ id: effect.purchase_ref, licence_id: result.applied.licenceId }]
      : [],
  )
  // Another replica may have recorded a refusal meanwhile.
  await retryRefused(
    tx,
    licences.map(({ id }) => id),
  )
  // Sales of other shops have no such event.
  return (await provision(tx, licences))
    .filter(({ id }) => !isSale(id))
    .map((row) => ({
      ...eventOf(row, {
        case: 'paymentSucceeded',
        value: { licenceId: row.licence_id ?? '', amount: row.amount, currency: row.currency },
      }),
      licencePlanId: plans.get(row.id) ?? undefined,
    }))
}

function eventOf(
  row: { account_id: string; application_id: string },
  payload: NewEvent['payload'],
): NewEvent {
  return { accountId: row.account_id, applicationId: row.application_id, payload }
}

/** A refused purchase waits for a replay, with all its effects. */
async function recordFailedProvisions(tx: Transaction, sent: SentEffect[]): Promise<NewEvent[]> {
  const refused = sent.flatMap(({ effect, result }) =>
    'refused' in result ? [{ id: effect.purchase_ref, failure_reason: result.refused.code }] : [],
  )
  if (refused.length === 0) return []
  const stopped = await refuseEffects(
    tx,
    refused.map(({ id }) => id),
  )
  const failed = await failToProvision(
    tx,
    refused.filter(({ id }) => stopped.has(id)),
  )
  return failed.map(({ id: sessionId, plan_id: planId, amount, currency, failure_reason, ...row }) =>
    eventOf(row, {
      case: 'paymentProvisionFailed',
      value: { sessionId, planId, amount, currency, reason: failure_reason ?? 'internal' },
    }),
  )
}

/** Events of the refunds themselves. Licensing appends the events of the licences. */
async function recordProcessedRefunds(
  tx: Transaction,
  applied: SentEffect[],
  plans: LicencePlans,
): Promise<NewEvent[]> {
  const refunds = applied.flatMap(({ effect: { refund_id: id, purchase_ref: ref } }) =>
    id ? [[id, ref] as const] : [],
  )
  if (refunds.length === 0) return []
  const refs = new Map(refunds)
  return (await markRefundsProcessed(tx, [...refs.keys()])).map(
    ({ charge_ref: chargeRef, amount, kind, ...row }) => ({
      ...eventOf(row, {
        case: 'refundProcessed',
        value: { licenceId: row.licence_id ?? '', chargeRef, amount, lane: kind },
      }),
      licencePlanId: plans.get(refs.get(row.id)!) ?? undefined,
    }),
  )
}

/** Whether a licence with this status is permanently over. */
const isPermanent: Record<LicenceStatus, boolean> = {
  active: false,
  suspended: false,
  expired: false,
  downgraded: false,
  revoked: true,
  retired: true,
}
const overStatuses = Object.entries(isPermanent).flatMap(([status, is]) => (is ? [status] : []))

/**
 * Alerts the vendor that a customer still pays for a purchase that was cancelled, or for a licence that is revoked or retired:
 * by a renewal after the end, or by a renewal that was applied before the end became known.
 */
async function alertLostRenewals(tx: Transaction, applied: SentEffect[]): Promise<void> {
  for (const { effect, result } of applied) {
    if (!('applied' in result) || effect.sent_again) continue
    const { licenceId = '', status } = result.applied
    const isOver = status !== undefined && overStatuses.includes(status)
    for (const renewal of await renewalsWithoutLicence(tx, effect, isOver)) {
      const state = isOver ? `is ${status} and stays so` : 'was cancelled before'
      const alert = {
        kind: 'renewal_without_licence' as const,
        subject: `A renewal was paid on licence ${licenceId}, which ${isOver ? `is ${status}` : 'was cancelled'}`,
        text: `Invoice ${renewal.cause} of purchase ${renewal.purchase_ref} was paid, and licence ${licenceId} ${state}. End the subscription where it was sold, or issue the customer another licence.`,
      }
      await alertVendors(tx, [renewal.account_id], alert, renewal.application_id)
    }
  }
}

async function renewalsWithoutLicence(
  tx: Transaction,
  effect: EffectRow,
  isOver: boolean,
): Promise<LostRenewal[]> {
  if (effect.kind === 'renewed') return isOver || (await isAfterCancellation(tx, effect)) ? [effect] : []
  const ends = isRevocation(effect) ? isOver : isEnd(effect)
  return ends ? findLostRenewals(tx, effect.position) : []
}
