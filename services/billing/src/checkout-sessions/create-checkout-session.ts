import type { MessageInitShape } from '@bufbuild/protobuf'
import type { Transaction } from '@licensing/database/connect'
import { newId } from '@licensing/database/ids'
import { transaction } from '@licensing/database/transaction'
import { invalid, ServiceError } from '@licensing/grpc/errors'
import type { CheckoutSessionSchema, CreateCheckoutSessionRequest } from '@licensing/proto/billing'
import { readMember } from '@licensing/proto/closed-sets'
import type { PlanStatus } from '@licensing/proto/closed-sets'
import { findConnection } from '../connections/connection-queries.ts'
import { checkReference } from '../check-reference.ts'
import type { BillingDeps } from '../dependencies.ts'
import { isPaused, shareCap } from '../fees/cap-queries.ts'
import { feeOf, periodOf } from '../fees/fee.ts'
import type { FeeTerms } from '../fees/fee.ts'
import { findPrice } from '../prices/price-queries.ts'
import type { PriceRow } from '../prices/price-queries.ts'
import { cancelUnopened, insertSession, writeOpened } from './session-queries.ts'
import type { NewSession } from './session-queries.ts'
import { sessionMessage } from './session.ts'

/**
 * The session is committed before the processor is asked, so that whatever the processor tells of it finds it; and its
 * id is the processor's idempotency key.
 */
export async function createCheckoutSession(
  deps: BillingDeps,
  request: CreateCheckoutSessionRequest,
): Promise<MessageInitShape<typeof CheckoutSessionSchema>> {
  const { sql, processor } = deps
  const [price, terms] = await Promise.all([soldAt(deps, request), feeTerms(deps, request.accountId)])
  const session = await transaction(sql, async (tx) => {
    const capPaused = await checkCap(tx, request.accountId, price, terms)
    if (price.planStatus === 'retired') throw planArchived(request.planId)
    const merchant = await connectedMerchant(tx, request.accountId)
    if (capPaused) throw capReached()
    const opened = newSession(request, price, terms, merchant)
    await insertSession(tx, opened)
    return opened
  })
  try {
    const opened = await processor.openCheckout({
      sessionId: session.id,
      accountId: request.accountId,
      applicationId: request.applicationId,
      planId: request.planId,
      externalRef: request.externalRef,
      merchant: session.merchant,
      priceId: price.price_id,
      mode: price.mode,
      amount: price.amount,
      currency: price.currency,
      feeMinor: session.fee_minor,
      feeBps: terms.bps,
      successUrl: request.successUrl,
      cancelUrl: request.cancelUrl,
    })
    return sessionMessage(await writeOpened(sql, session.id, opened))
  } catch (error) {
    await cancelUnopened(sql, session.id)
    throw error
  }
}

async function soldAt(
  { sql, catalog }: BillingDeps,
  request: CreateCheckoutSessionRequest,
): Promise<PriceRow & { planStatus: PlanStatus }> {
  const { accountId, applicationId, planId } = request
  checkReference('/external_ref', request.externalRef)
  const plan = await catalog.getPlanCopy({ accountId, applicationId, planId }).catch((error: unknown) => {
    if (error instanceof ServiceError && error.code === 'not_found') return undefined
    throw error
  })
  if (!plan) throw invalid('/plan_id', `there is no plan ${planId} in this application`)
  const price = await findPrice(sql, request)
  if (!price) {
    throw invalid('/plan_id', `plan ${planId} has no price: map one with PUT …/plans/${planId}/price`)
  }
  return { ...price, planStatus: readMember('planStatus', plan.status) }
}

async function feeTerms({ catalog }: BillingDeps, accountId: string): Promise<FeeTerms> {
  const { feeBps, feeFixedMinor } = await catalog.getAccount({ accountId })
  return { bps: feeBps, fixedMinor: feeFixedMinor }
}

/** @returns whether checkouts that cost a fee are paused and this one does */
async function checkCap(
  tx: Transaction,
  accountId: string,
  price: PriceRow,
  terms: FeeTerms,
): Promise<boolean> {
  const cap = await shareCap(tx, accountId)
  if (cap.cap_minor !== null && cap.currency !== price.currency) {
    throw invalid(
      '/plan_id',
      `the plan is sold in ${price.currency}, but the spend cap is in ${cap.currency}: only that currency can be sold while it is set`,
    )
  }
  return feeOf(price.amount, terms) > 0n && (await isPaused(tx, accountId, periodOf(new Date())))
}

async function connectedMerchant(tx: Transaction, accountId: string): Promise<string> {
  const connection = await findConnection(tx, accountId)
  if (connection && !connection.disconnected_at) return connection.merchant
  throw new ServiceError(
    'conflict',
    connection
      ? 'the connected account withdrew its access: connect it again with PUT /v1/processor'
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
    amount: price.amount,
    currency: price.currency,
    fee_minor: feeOf(price.amount, terms),
    fee_bps: terms.bps,
    fee_fixed_minor: terms.fixedMinor,
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
