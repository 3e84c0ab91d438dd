import { timestampDate } from '@bufbuild/protobuf/wkt'
import { newId } from '@licensing/database/ids'
import { checkMetadata, checkReference } from '@licensing/grpc/checks'
import { invalid, ServiceError } from '@licensing/grpc/errors'
import { RecordSaleEventResponseSchema } from '@licensing/proto/billing'
import type { RecordSaleEventRequest } from '@licensing/proto/billing'
import { readMember } from '@licensing/proto/closed-sets'
import { addMonths, lastDate, updatesPaid } from '../calendar.ts'
import { checkMoney, checkOccurredAt } from '../checks.ts'
import type { BillingDependencies, Handler } from '../dependencies.ts'
import { dayChanges, noteDayChanges } from '../payment-days/day-changes.ts'
import { insertPayment } from '../payments/payment-queries.ts'
import type { NewPayment } from '../payments/payment-queries.ts'
import { findByPriceId, findPrice } from '../prices/price-queries.ts'
import type { PriceRow } from '../prices/price-queries.ts'
import { findSoldPlan } from '../prices/prices.ts'
import { insertSalePurchase } from '../effects/effect-queries.ts'
import { isTransient, provisionAgain, provisionNow, replay } from '../effects/send-effects.ts'
import { findSale, insertSale } from './sale-event-queries.ts'
import { lockSaleName } from './sale-fact-queries.ts'
import type { NewSale, SaleRow } from './sale-event-queries.ts'

/**
 * A sale made in another shop. It is recorded together with its effect, then provisioned at once. If licensing's answer is
 * lost and the shop does not repeat the sale, it is provisioned in the background.
 */
export const recordSaleEvent: Handler<'recordSaleEvent'> = async (deps, request) => {
  checkReference('/sale_id', request.saleId)
  const recorded = await recordOnce(deps, request)
  const response = { saleEvent: saleMessage(recorded.sale), created: recorded.created }
  // The answer is recorded separately, because a repetition finds the same sale. A sale without a licence is tried again.
  if (recorded.sale.status === 'provisioned') {
    await deps.change(async () => {}, {
      answer: { schema: RecordSaleEventResponseSchema, toMessage: () => response },
    })
  }
  return response
}

async function recordOnce(
  deps: BillingDependencies,
  request: RecordSaleEventRequest,
): Promise<{ sale: SaleRow; created: boolean }> {
  const known = await findSale(deps.sql, request)
  if (known) return { sale: await again(deps, known, request), created: false }
  const sale = await newSale(deps, request)
  if (await recordSale(deps, request, sale)) {
    return { sale: (await findSale(deps.sql, request))!, created: true }
  }
  const other = await findSale(deps.sql, request)
  return { sale: await again(deps, other!, request), created: false }
}

/** @returns false if it was recorded before */
async function recordSale(
  deps: BillingDependencies,
  request: RecordSaleEventRequest,
  sale: NewSale,
): Promise<boolean> {
  const isNew = await deps.change(async (tx) => {
    await lockSaleName(tx, request)
    if (!(await insertSale(tx, sale))) return false
    const payment = salePayment(sale)
    await insertPayment(tx, `checkout:${sale.id}`, payment)
    const { account_id, application_id } = sale
    const nothing = { payments: [], refunds: [], fees: [] }
    const changes = dayChanges(nothing, { ...nothing, payments: [payment] })
    await noteDayChanges(
      tx,
      changes.map((change) => ({ ...change, account_id, application_id })),
    )
    await insertSalePurchase(tx, sale)
    return true
  })
  if (isNew) await provisionNow(deps, sale.id).catch(unlessRefused)
  // Facts about the sale may have waited for it.
  if (isNew) deps.wake('decide')
  return isNew
}

/** If the shop repeats a sale that was refused, it is provisioned after the cause was removed. */
async function again(
  deps: BillingDependencies,
  known: SaleRow,
  request: RecordSaleEventRequest,
): Promise<SaleRow> {
  if (!known.body_hash.equals(request.bodyHash)) {
    throw new ServiceError(
      'idempotency_mismatch',
      `sale ${request.saleId} was reported before with another body: send it unchanged, or use another sale_id`,
    )
  }
  if (known.status === 'provisioned') return known
  const isRetried = await replay(deps, known.id).catch(unlessRefused)
  if (isRetried === false) await provisionAgain(deps, known.id).catch(unlessRefused)
  return (await findSale(deps.sql, request))!
}

/** A refusal is answered as the sale's status. After a failure that may pass, the caller has to send the sale again. */
function unlessRefused(error: unknown): void {
  if (error instanceof ServiceError && !isTransient(error.code)) return
  throw error
}

async function newSale(deps: BillingDependencies, request: RecordSaleEventRequest): Promise<NewSale> {
  checkReference('/external_ref', request.externalRef)
  checkMoney(request.amount, request.currency)
  const metadata = checkMetadata(request.metadata)
  const occurredAt = checkOccurredAt(request.occurredAt)
  const { planId, price } = await soldPlan(deps, request)
  const given = request.expiresOn && timestampDate(request.expiresOn)
  const updates = request.updatesUntil && timestampDate(request.updatesUntil)
  // A sale that names a plan does not use the price of the plan.
  const paidPrice = request.priceId === undefined ? undefined : price
  return {
    id: newId('sale'),
    account_id: request.accountId,
    application_id: request.applicationId,
    sale_id: request.saleId,
    body_hash: Buffer.from(request.bodyHash),
    external_ref: request.externalRef,
    plan_id: planId,
    amount: request.amount,
    currency: request.currency,
    occurred_at: occurredAt,
    expires_on: given ?? expiryByPrice(price, occurredAt),
    updates_until: updates ?? updatesPaid(paidPrice?.updates_months, occurredAt),
    updates_months: paidPrice?.updates_months ?? null,
    metadata,
  }
}

async function soldPlan(
  deps: BillingDependencies,
  request: RecordSaleEventRequest,
): Promise<{ planId: string; price: PriceRow | undefined }> {
  const { planId, priceId } = request
  if (planId === undefined) {
    if (priceId === undefined) throw invalid('/plan_id', 'is required without price_id')
    const price = await findByPriceId(deps.sql, request, priceId)
    if (!price) throw invalid('/price_id', `no plan of this application is mapped to price ${priceId}`)
    return { planId: price.plan_id, price }
  }
  if (priceId !== undefined)
    throw invalid('/price_id', 'cannot be combined with plan_id: send one of the two')
  await findSoldPlan(deps, { ...request, planId })
  return { planId, price: await findPrice(deps.sql, { ...request, planId }) }
}

function expiryByPrice(price: PriceRow | undefined, occurredAt: Date): Date | null {
  if (!price || price.mode !== 'payment' || price.period_months === null) return null
  const end = addMonths(occurredAt, price.period_months)
  if (end <= lastDate) return end
  throw invalid(
    '/expires_on',
    'is required: after the months of the plan’s price the sale would end past the year 9999',
  )
}

function salePayment(sale: NewSale) {
  return {
    id: newId('pay'),
    account_id: sale.account_id,
    application_id: sale.application_id,
    purchase_ref: sale.id,
    sale_id: sale.sale_id,
    payment_ref: sale.id,
    plan_id: sale.plan_id,
    external_ref: sale.external_ref,
    amount: sale.amount,
    currency: sale.currency,
    fee_minor: 0n,
    paid_at: sale.occurred_at,
    charged_at: null,
    charge_state: 'none',
  } satisfies NewPayment
}

function saleMessage(sale: SaleRow) {
  return {
    id: sale.id,
    saleId: sale.sale_id,
    status: readMember('saleStatus', sale.status),
    ...(sale.licence_id !== null && { licenceId: sale.licence_id }),
  }
}
