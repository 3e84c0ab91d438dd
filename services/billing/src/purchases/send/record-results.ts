import type { Transaction } from '@licensing/database/connect'
import { append } from '@licensing/events/outbox'
import type { NewEvent } from '@licensing/events/outbox'
import type { ServiceError } from '@licensing/grpc/errors'
import { alertVendors } from '../../alerts/alert-vendor.ts'
import {
  failSales,
  failSessions,
  findOvertakenRenewals,
  finishEffects,
  isSale,
  lockFulfilments,
  markRefundsProcessed,
  provisionSales,
  provisionSessions,
  refuseEffects,
  writeCarried,
} from './effect-queries.ts'
import type { EffectRow, LostRenewal } from './effect-queries.ts'
import { mostHolds } from '../timing.ts'
import type { DueFulfilment } from '../queue-queries.ts'

/** A purchase that is being carried out. */
export type Claimed = Pick<DueFulfilment, 'purchase_ref' | 'attempts'>

/** What became of an effect. */
export type Outcome =
  | { applied: { licenceId: string | undefined; status: string | undefined } }
  | { refused: ServiceError }
  | { failed: unknown }
  | { held: true }

export interface CarriedEffect {
  effect: EffectRow
  outcome: Outcome
}

/**
 * Records what came of effects, and notifies the vendors, in one transaction. Repeated, it changes nothing.
 *
 * @param quietly a refusal is reported by the caller
 */
export async function recordResults(
  tx: Transaction,
  claimed: Claimed[],
  carried: CarriedEffect[],
  quietly: boolean,
): Promise<void> {
  const refs = claimed.map((each) => each.purchase_ref)
  await lockFulfilments(tx, refs)
  const applied = carried.filter(({ outcome }) => 'applied' in outcome)
  const finished = applied.map(({ effect }) => effect.position)
  await finishEffects(tx, finished)
  const succeeded = await provisioned(tx, applied)
  const failures = await provisionsFailed(tx, carried)
  const refunded = await refundsProcessed(tx, applied)
  await append(tx, ...succeeded, ...(quietly ? [] : failures), ...refunded)
  await alertLostRenewals(tx, applied)
  const purchasesOf = (outcome: 'failed' | 'held') =>
    new Set(carried.filter((each) => outcome in each.outcome).map(({ effect }) => effect.purchase_ref))
  const [failed, held] = [purchasesOf('failed'), purchasesOf('held')]
  const tried = claimed.map(({ purchase_ref, attempts }) => {
    // While licensing is unavailable, holds are not used up: when it is back, what is known must still count.
    if (failed.has(purchase_ref)) return { purchase_ref, attempts: Math.min(attempts, mostHolds / 2) + 1 }
    return { purchase_ref, attempts: held.has(purchase_ref) ? attempts + 1 : 0 }
  })
  await writeCarried(tx, tried)
}

async function provisioned(tx: Transaction, applied: CarriedEffect[]): Promise<NewEvent[]> {
  const licences = applied.flatMap(({ effect, outcome }) =>
    effect.kind === 'landed' && 'applied' in outcome && outcome.applied.licenceId !== undefined
      ? [{ id: effect.purchase_ref, licence_id: outcome.applied.licenceId }]
      : [],
  )
  const { sales = [], sessions = [] } = Object.groupBy(licences, whatItIs)
  await provisionSales(tx, sales)
  return (await provisionSessions(tx, sessions)).map((row) =>
    eventOf(row, {
      case: 'paymentSucceeded',
      value: { licenceId: row.licence_id ?? '', amount: row.amount, currency: row.currency },
    }),
  )
}

const whatItIs = ({ id }: { id: string }) => (isSale(id) ? 'sales' : 'sessions')

function eventOf(
  row: { account_id: string; application_id: string },
  payload: NewEvent['payload'],
): NewEvent {
  return { accountId: row.account_id, applicationId: row.application_id, payload }
}

/** What is refused for good waits for a replay, and all that follows it. */
async function provisionsFailed(tx: Transaction, carried: CarriedEffect[]): Promise<NewEvent[]> {
  const refused = carried.flatMap(({ effect, outcome }) =>
    'refused' in outcome ? [{ id: effect.purchase_ref, failure_reason: outcome.refused.code }] : [],
  )
  if (refused.length === 0) return []
  const refs = refused.map((each) => each.id)
  await refuseEffects(tx, refs)
  const { sales = [], sessions = [] } = Object.groupBy(refused, whatItIs)
  const failed = [...(await failSessions(tx, sessions)), ...(await failSales(tx, sales))]
  return failed.map(({ id: sessionId, plan_id: planId, amount, currency, failure_reason, ...row }) =>
    eventOf(row, {
      case: 'paymentProvisionFailed',
      value: { sessionId, planId, amount, currency, reason: failure_reason ?? 'internal' },
    }),
  )
}

/** The refunds' own events; the licences' come from licensing. */
async function refundsProcessed(tx: Transaction, applied: CarriedEffect[]): Promise<NewEvent[]> {
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
 * The customer goes on paying for a licence that stays revoked or retired: by a renewal that comes after its end, or that
 * had come before its end was known.
 */
async function alertLostRenewals(tx: Transaction, applied: CarriedEffect[]): Promise<void> {
  for (const { effect, outcome } of applied) {
    if (!('applied' in outcome)) continue
    const { licenceId = '', status } = outcome.applied
    if (status !== 'revoked' && status !== 'retired') continue
    for (const renewal of await lostRenewals(tx, effect)) {
      const alert = {
        kind: 'renewal_without_licence' as const,
        subject: `A renewal was paid on licence ${licenceId}, which is ${status}`,
        text: `Invoice ${renewal.cause} of purchase ${renewal.purchase_ref} was paid, and licence ${licenceId} is ${status} and stays so. End the subscription at the payment processor, or issue the customer another licence.`,
      }
      await alertVendors(tx, [renewal.account_id], alert, renewal.application_id)
    }
  }
}

async function lostRenewals(tx: Transaction, effect: EffectRow): Promise<LostRenewal[]> {
  if (effect.kind === 'renewed') return [effect]
  return effect.kind === 'given_back' ? findOvertakenRenewals(tx, effect.position) : []
}
