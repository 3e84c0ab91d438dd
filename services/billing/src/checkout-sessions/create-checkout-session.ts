import type { Transaction } from '@licensing/database/connect'
import { newId } from '@licensing/database/ids'
import { checkMetadata, checkReference } from '@licensing/grpc/checks'
import { invalid, ServiceError } from '@licensing/grpc/errors'
import { deleteUnfinishedRecord } from '@licensing/changes/repeatable'
import { CheckoutSessionSchema } from '@licensing/proto/billing'
import type { CreateCheckoutSessionRequest } from '@licensing/proto/billing'
import { readMember } from '@licensing/proto/closed-sets'
import type { PlanStatus } from '@licensing/proto/closed-sets'
import { currentTime } from '@licensing/process/clock'
import { findConnection } from '../connected-accounts/connection-queries.ts'
import type { BillingDependencies, Handler } from '../dependencies.ts'
import { isPaused, lockCapForShare } from '../fees/cap-queries.ts'
import { feeOf, periodOf } from '../fees/fee.ts'
import type { FeeTerms } from '../fees/fee.ts'
import { findPrice } from '../prices/price-queries.ts'
import type { PriceRow } from '../prices/price-queries.ts'
import { findSoldPlan } from '../prices/prices.ts'
import { linkCheckout } from '../facts/record-facts.ts'
import { cancelUnopened, findSession, insertSession, writeOpened } from './session-queries.ts'
import type { NewSession } from './session-queries.ts'
import { sessionMessage } from './sessions.ts'

/**
 * The session is committed before the processor is called, so that events about it find it. Its id is the idempotency
 * key of that call.
 */
export const createCheckoutSession: Handler<'createCheckoutSession'> = async (
  deps,
  request,
  unfinishedAnswer,
) => {
  const { sql, processor } = deps
  const saved = unfinishedAnswer && (await findSession(sql, { ...request, sessionId: unfinishedAnswer.id }))
  if (saved && saved.checkout_ref !== null) return sessionMessage(saved)
  const session = saved?.status === 'open' ? saved : await saveSession(deps, request)
  const terms = { bps: session.fee_bps, fixedMinor: session.fee_fixed_minor }
  try {
    const opened = await processor.openCheckout(session, request, (amount) => feeOf(amount, terms))
    const feeMinor = opened.amount === session.amount ? session.fee_minor : feeOf(opened.amount, terms)
    const row = await deps.change(async (tx) => {
      await linkCheckout(tx, session.merchant, opened.checkoutRef, session.id)
      return writeOpened(tx, session.id, { ...opened, feeMinor })
    })
    deps.wake('decide')
    return sessionMessage(row)
  } catch (error) {
    await cancelUnopened(sql, session.id)
    await deleteUnfinishedRecord(sql)
    throw error
  }
}

// The recorded answer is unfinished until the processor has returned the URL.
const answer = {
  schema: CheckoutSessionSchema,
  toMessage: ({ id }: NewSession) => ({ id }),
  isUnfinished: true,
}

async function saveSession(
  deps: BillingDependencies,
  request: CreateCheckoutSessionRequest,
): Promise<NewSession> {
  const [price, terms] = await Promise.all([findSoldPrice(deps, request), feeTerms(deps, request.accountId)])
  const save = async (tx: Transaction) => {
    const capPaused = await checkCap(tx, request.accountId, price, terms)
    if (price.planStatus === 'retired') throw planArchived(request.planId)
    const merchant = await connectedMerchant(tx, request.accountId)
    if (capPaused) throw capReached()
    const opened = newSession(request, price, terms, merchant)
    await insertSession(tx, opened)
    return opened
  }
  return deps.change(save, { answer })
}

async function findSoldPrice(
  deps: BillingDependencies,
  request: CreateCheckoutSessionRequest,
): Promise<PriceRow & { planStatus: PlanStatus }> {
  checkReference('/external_ref', request.externalRef)
  checkMetadata(request.metadata)
  const { status } = await findSoldPlan(deps, request)
  const price = await findPrice(deps.sql, request)
  if (price) return { ...price, planStatus: readMember('planStatus', status) }
  const { planId } = request
  throw invalid('/plan_id', `plan ${planId} has no price: map one with PUT …/plans/${planId}/price`)
}

async function feeTerms({ catalog }: BillingDependencies, accountId: string): Promise<FeeTerms> {
  const { feeBps, feeFixedMinor } = await catalog.getAccount({ accountId })
  return { bps: feeBps, fixedMinor: feeFixedMinor }
}

/** @returns whether this checkout has a fee, and checkouts with a fee are paused */
async function checkCap(
  tx: Transaction,
  accountId: string,
  price: PriceRow,
  terms: FeeTerms,
): Promise<boolean> {
  const cap = await lockCapForShare(tx, accountId)
  if (cap.cap_minor !== null && cap.currency !== price.currency) {
    throw invalid(
      '/plan_id',
      `the plan is sold in ${price.currency}, but the spend cap is in ${cap.currency}: only that currency can be sold while it is set`,
    )
  }
  return feeOf(price.amount, terms) > 0n && (await isPaused(tx, accountId, periodOf(currentTime())))
}

async function connectedMerchant(tx: Transaction, accountId: string): Promise<string> {
  const connection = await findConnection(tx, accountId)
  if (connection && !connection.disconnected_at) return connection.merchant
  throw new ServiceError(
    'conflict',
    connection
      ? 'the connected account is no longer connected: connect it again, or another one'
      : 'no payment processor is connected: connect one with PUT /v1/processor first',
    { members: { current: connection ? 'disconnected' : 'not_connected', allowed: [] } },
  )
}

function newSession(
  request: CreateCheckoutSessionRequest,
  price: PriceRow,
  terms: FeeTerms,
  merchant: string,
): NewSession {
  return {
    id: newId('cs'),
    account_id: request.accountId,
    application_id: request.applicationId,
    plan_id: request.planId,
    external_ref: request.externalRef,
    price_id: price.price_id,
    mode: price.mode,
    period_months: price.period_months,
    updates_months: price.updates_months,
    amount: price.amount,
    currency: price.currency,
    fee_minor: feeOf(price.amount, terms),
    fee_bps: terms.bps,
    fee_fixed_minor: terms.fixedMinor,
    metadata: request.metadata?.entries ?? {},
    merchant,
  }
}

function planArchived(planId: string): ServiceError {
  return new ServiceError(
    'plan_archived',
    `plan ${planId} is retired and no longer sold: restore plan ${planId} first`,
  )
}

function capReached(): ServiceError {
  return new ServiceError(
    'spend_cap_reached',
    'the spend cap of this period is reached: raise or remove it with PUT /v1/spend-cap, or wait for the next UTC month',
  )
}
