import type { MessageInitShape } from '@bufbuild/protobuf'
import { timestampDate, timestampFromDate } from '@bufbuild/protobuf/wkt'
import type { Transaction } from '@licensing/database/connect'
import { newId } from '@licensing/database/ids'
import { append } from '@licensing/events/outbox'
import { invalid, ServiceError } from '@licensing/grpc/errors'
import type { RecordSaleEventRequest, RecordSaleEventResponseSchema } from '@licensing/proto/billing'
import { readMember } from '@licensing/proto/closed-sets'
import { addMonths, lastDate } from '../calendar.ts'
import { checkReference } from '../check-reference.ts'
import type { BillingDeps } from '../dependencies.ts'
import { insertPayment } from '../payments/payment-queries.ts'
import { findByPriceId, findPrice } from '../prices/price-queries.ts'
import type { PriceRow } from '../prices/price-queries.ts'
import { checkMoney } from '../prices/price.ts'
import { lastingRefusal } from '../settlement/provision.ts'
import { findSale, insertSale, lockSale, writeProvisionedSale } from './sale-event-queries.ts'
import type { NewSale, SaleRow } from './sale-event-queries.ts'
import { forgetSaleIntent, keepSaleIntent } from './sale-intent-queries.ts'

/**
 * A sale made in another shop. It is recorded, provisioned and told in one transaction; licensing knows it by the
 * shop's id, so that a crash after its answer leads to the same licence. That it is to be done is committed first: where
 * licensing's answer is lost, and nobody sends the sale again, it is finished in the background.
 */
export async function recordSaleEvent(
  deps: BillingDeps,
  request: RecordSaleEventRequest,
): Promise<MessageInitShape<typeof RecordSaleEventResponseSchema>> {
  checkReference('/sale_id', request.saleId)
  const known = await findSale(deps.sql, request)
  if (known) return { saleEvent: saleMessage(await again(deps, known, request)), created: false }
  const sale = await newSale(deps, request)
  await keepSaleIntent(deps.sql, sale)
  const recorded = await recordSale(deps, sale)
  if (recorded) return { saleEvent: saleMessage(recorded), created: true }
  const other = await findSale(deps.sql, request)
  return { saleEvent: saleMessage(await again(deps, other!, request)), created: false }
}

/** Undefined where it was recorded before. */
export async function recordSale(deps: BillingDeps, sale: NewSale): Promise<SaleRow | undefined> {
  return deps.outbox.transaction(async (tx) => {
    await forgetSaleIntent(tx, sale)
    if (!(await insertSale(tx, sale))) return undefined
    await insertPayment(tx, `sale:${sale.id}`, salePayment(sale))
    const refused = await tryToProvision(deps, tx, await lockSale(tx, sale.id))
    if (refused) await tellFailure(tx, sale, refused)
    return lockSale(tx, sale.id)
  })
}

/** The same sale sent again provisions once the cause is fixed. */
async function again(deps: BillingDeps, known: SaleRow, request: RecordSaleEventRequest): Promise<SaleRow> {
  if (!known.body_hash.equals(request.bodyHash)) {
    throw new ServiceError(
      'idempotency_mismatch',
      `sale ${request.saleId} was reported before with another body: send it unchanged, or use another sale_id`,
    )
  }
  if (known.status === 'provisioned') return known
  return deps.outbox.transaction(async (tx) => {
    const sale = await lockSale(tx, known.id)
    if (sale.status === 'provision_failed') await tryToProvision(deps, tx, sale)
    return lockSale(tx, known.id)
  })
}

/** @returns why it could not be provisioned, where only the vendor can mend it */
async function tryToProvision(
  { licensing }: BillingDeps,
  tx: Transaction,
  sale: SaleRow,
): Promise<ServiceError | undefined> {
  try {
    const { licence } = await licensing.provisionLicence({
      accountId: sale.account_id,
      applicationId: sale.application_id,
      paymentRef: `sale:${sale.sale_id}`,
      planId: sale.plan_id,
      externalRef: sale.external_ref,
      ...(sale.expires_on && { expiresOn: timestampFromDate(sale.expires_on) }),
    })
    await writeProvisionedSale(tx, sale, licence!.id)
    return undefined
  } catch (error) {
    return lastingRefusal(error)
  }
}

async function tellFailure(tx: Transaction, sale: NewSale, refused: ServiceError): Promise<void> {
  await append(tx, {
    accountId: sale.account_id,
    applicationId: sale.application_id,
    payload: {
      case: 'paymentProvisionFailed',
      value: {
        sessionId: sale.id,
        planId: sale.plan_id,
        amount: sale.amount,
        currency: sale.currency,
        reason: refused.code,
      },
    },
  })
}

async function newSale(deps: BillingDeps, request: RecordSaleEventRequest): Promise<NewSale> {
  checkReference('/external_ref', request.externalRef)
  if (!request.occurredAt) throw invalid('/occurred_at', 'is required')
  checkMoney(request.amount, request.currency)
  const occurredAt = timestampDate(request.occurredAt)
  const { planId, price } = await soldPlan(deps, request)
  const given = request.expiresOn && timestampDate(request.expiresOn)
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
  }
}

async function soldPlan(
  { sql, catalog }: BillingDeps,
  request: RecordSaleEventRequest,
): Promise<{ planId: string; price: PriceRow | undefined }> {
  const { accountId, applicationId, planId, priceId } = request
  if (planId === undefined) {
    if (priceId === undefined) throw invalid('/plan_id', 'is required without price_id')
    const price = await findByPriceId(sql, request, priceId)
    if (!price) throw invalid('/price_id', `no plan of this application is mapped to price ${priceId}`)
    return { planId: price.plan_id, price }
  }
  if (priceId !== undefined)
    throw invalid('/price_id', 'cannot be combined with plan_id: send one of the two')
  await catalog.getPlanCopy({ accountId, applicationId, planId }).catch((error: unknown) => {
    if (error instanceof ServiceError && error.code === 'not_found') {
      throw invalid('/plan_id', `there is no plan ${planId} in this application`)
    }
    throw error
  })
  return { planId, price: await findPrice(sql, { accountId, applicationId, planId }) }
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
    session_id: null,
    sale_id: sale.sale_id,
    invoice_ref: null,
    plan_id: sale.plan_id,
    external_ref: sale.external_ref,
    amount: sale.amount,
    currency: sale.currency,
    fee_minor: 0n,
    licence_id: null,
    paid_at: sale.occurred_at,
    merchant: null,
    payment_ref: null,
    charge_state: 'none' as const,
    period_end: null,
  }
}

function saleMessage(sale: SaleRow) {
  return {
    id: sale.id,
    saleId: sale.sale_id,
    status: readMember('saleStatus', sale.status),
    ...(sale.licence_id !== null && { licenceId: sale.licence_id }),
  }
}
