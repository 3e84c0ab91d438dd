import type { Transaction } from '@licensing/database/connect'
import { append } from '@licensing/events/outbox'
import type { NewEvent } from '@licensing/events/outbox'
import type { ServiceError } from '@licensing/grpc/errors'
import { alertVendors } from '../alerts/alert-vendor.ts'
import {
  failSales,
  failSessions,
  findLostRenewals,
  finishEffects,
  isRevocation,
  isSale,
  lockPurchases,
  markRefundsProcessed,
  provisionSales,
  provisionSessions,
  refuseEffects,
  retryRefused,
  writeSent,
} from './effect-queries.ts'
import type { EffectRow, LostRenewal } from './effect-queries.ts'
import { holdLicensingEpoch, markReported, resendPurchases } from './resend-queries.ts'
import { maxPostponements } from '../timing.ts'
import type { DuePurchase } from '../queues/queue-queries.ts'

/** A purchase whose effects are being sent. */
export type LeasedPurchase = Pick<DuePurchase, 'purchase_ref' | 'attempts' | 'batch_limit'>

/** The outcome of sending an effect to licensing. */
export type Outcome =
  | { applied: AppliedEffect }
  | { refused: ServiceError }
  /** Licensing does not know the purchase, although its payment was applied. */
  | { lost: ServiceError }
  /** `late`: how many effects were in the batch, if licensing did not answer it in time. */
  | { failed: unknown; late?: number | undefined }
  | { postponed: true }

interface AppliedEffect {
  licenceId: string | undefined
  status: string | undefined
  /** The epoch of licensing's database that answered; undefined if the effect was not sent. */
  epoch: bigint | undefined
}

export interface SentEffect {
  effect: EffectRow
  outcome: Outcome
}

/** Records the outcomes of effects, and notifies the vendors, in one transaction. A repetition changes nothing. */
export async function recordResults(
  tx: Transaction,
  leased: LeasedPurchase[],
  results: SentEffect[],
): Promise<void> {
  const epoch = await holdLicensingEpoch(tx)
  const sent = results.map((result) =>
    isOutdated(result, epoch) ? { ...result, outcome: outdated } : result,
  )
  const refs = leased.map((each) => each.purchase_ref)
  await lockPurchases(tx, refs)
  const positions = sent.flatMap(({ effect, outcome }) => ('applied' in outcome ? [effect.position] : []))
  const finished = await finishEffects(tx, positions)
  const applied = sent.filter(({ effect }) => finished.has(effect.position))
  const succeeded = await recordProvisioned(tx, applied)
  const failures = await recordFailedProvisions(tx, sent)
  const refunded = await recordProcessedRefunds(tx, applied)
  await append(tx, ...succeeded, ...failures, ...refunded)
  await alertLostRenewals(tx, applied)
  await resendLost(tx, sent)
  const purchasesWith = (is: (outcome: Outcome) => boolean) =>
    new Set(sent.filter(({ outcome }) => is(outcome)).map(({ effect }) => effect.purchase_ref))
  const failed = purchasesWith((outcome) => 'failed' in outcome || 'lost' in outcome)
  const late = new Map(
    sent.flatMap(({ effect, outcome }) =>
      'failed' in outcome && outcome.late !== undefined ? [[effect.purchase_ref, outcome.late]] : [],
    ),
  )
  const postponed = purchasesWith((outcome) => 'postponed' in outcome)
  const tried = leased.map(({ purchase_ref, attempts }) => {
    // An outage of licensing does not use up postponements, so that a revocation can still be prevented afterwards.
    const tries = failed.has(purchase_ref) ? Math.min(attempts, maxPostponements / 2) + 1 : attempts + 1
    const size = late.get(purchase_ref)
    return {
      purchase_ref,
      attempts: failed.has(purchase_ref) || postponed.has(purchase_ref) ? tries : 0,
      batch_limit: size === undefined ? null : Math.max(1, Math.floor(size / 2)),
    }
  })
  await writeSent(tx, tried)
}

/** Whether licensing's database was set back since it applied the effect. */
function isOutdated({ outcome }: SentEffect, epoch: bigint): boolean {
  return 'applied' in outcome && outcome.applied.epoch !== undefined && outcome.applied.epoch < epoch
}

const outdated: Outcome = { failed: new Error('the database of licensing was set back meanwhile') }

/**
 * Sends all effects of a purchase again whose payment licensing has lost, the payment first. Until it is known again, later
 * effects wait. The vendor is alerted once if a customer pays for it. No kind of alert fits the other effects.
 */
async function resendLost(tx: Transaction, sent: SentEffect[]): Promise<void> {
  const lost = sent.flatMap(({ effect, outcome }) => ('lost' in outcome ? [effect] : []))
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

async function recordProvisioned(tx: Transaction, applied: SentEffect[]): Promise<NewEvent[]> {
  const licences = applied.flatMap(({ effect, outcome }) =>
    effect.kind === 'paid' && 'applied' in outcome && outcome.applied.licenceId !== undefined
      ? [{ id: effect.purchase_ref, licence_id: outcome.applied.licenceId }]
      : [],
  )
  // Another replica may have recorded a refusal meanwhile.
  await retryRefused(
    tx,
    licences.map(({ id }) => id),
  )
  const { sales = [], sessions = [] } = Object.groupBy(licences, tableOf)
  await provisionSales(tx, sales)
  return (await provisionSessions(tx, sessions)).map((row) =>
    eventOf(row, {
      case: 'paymentSucceeded',
      value: { licenceId: row.licence_id ?? '', amount: row.amount, currency: row.currency },
    }),
  )
}

const tableOf = ({ id }: { id: string }) => (isSale(id) ? 'sales' : 'sessions')

function eventOf(
  row: { account_id: string; application_id: string },
  payload: NewEvent['payload'],
): NewEvent {
  return { accountId: row.account_id, applicationId: row.application_id, payload }
}

/** A refused purchase waits for a replay, with all its effects. */
async function recordFailedProvisions(tx: Transaction, sent: SentEffect[]): Promise<NewEvent[]> {
  const refused = sent.flatMap(({ effect, outcome }) =>
    'refused' in outcome ? [{ id: effect.purchase_ref, failure_reason: outcome.refused.code }] : [],
  )
  if (refused.length === 0) return []
  const stopped = await refuseEffects(
    tx,
    refused.map(({ id }) => id),
  )
  const { sales = [], sessions = [] } = Object.groupBy(
    refused.filter(({ id }) => stopped.has(id)),
    tableOf,
  )
  const failed = [...(await failSessions(tx, sessions)), ...(await failSales(tx, sales))]
  return failed.map(({ id: sessionId, plan_id: planId, amount, currency, failure_reason, ...row }) =>
    eventOf(row, {
      case: 'paymentProvisionFailed',
      value: { sessionId, planId, amount, currency, reason: failure_reason ?? 'internal' },
    }),
  )
}

/** Events of the refunds themselves. Licensing appends the events of the licences. */
async function recordProcessedRefunds(tx: Transaction, applied: SentEffect[]): Promise<NewEvent[]> {
  const ids = applied.map(({ effect }) => effect.refund_id).filter((id) => id !== null)
  if (ids.length === 0) return []
  return (await markRefundsProcessed(tx, ids)).map(({ charge_ref: chargeRef, amount, lane, ...row }) =>
    eventOf(row, {
      case: 'refundProcessed',
      value: { licenceId: row.licence_id ?? '', chargeRef, amount, lane },
    }),
  )
}

/**
 * Alerts the vendor that a customer still pays for a licence that is revoked or retired: by a renewal after its end, or by a
 * renewal that was applied before its end became known.
 */
async function alertLostRenewals(tx: Transaction, applied: SentEffect[]): Promise<void> {
  for (const { effect, outcome } of applied) {
    if (!('applied' in outcome) || effect.sent_again) continue
    const { licenceId = '', status } = outcome.applied
    if (status !== 'revoked' && status !== 'retired') continue
    for (const renewal of await renewalsWithoutLicence(tx, effect)) {
      const alert = {
        kind: 'renewal_without_licence' as const,
        subject: `A renewal was paid on licence ${licenceId}, which is ${status}`,
        text: `Invoice ${renewal.cause} of purchase ${renewal.purchase_ref} was paid, and licence ${licenceId} is ${status} and stays so. End the subscription at the payment processor, or issue the customer another licence.`,
      }
      await alertVendors(tx, [renewal.account_id], alert, renewal.application_id)
    }
  }
}

async function renewalsWithoutLicence(tx: Transaction, effect: EffectRow): Promise<LostRenewal[]> {
  if (effect.kind === 'renewed') return [effect]
  return isRevocation(effect) ? findLostRenewals(tx, effect.position) : []
}
