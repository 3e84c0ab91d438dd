import { audit, changesOf } from '@licensing/changes/audit'
import type { Transaction } from '@licensing/database/connect'
import { brokenConstraint } from '@licensing/database/problems'
import { messageOf } from '@licensing/grpc/fields'
import { checkReference } from '@licensing/grpc/checks'
import { invalid, ServiceError } from '@licensing/grpc/errors'
import { PriceSchema } from '@licensing/proto/billing'
import type { Price } from '@licensing/proto/billing'
import type { PlanCopy } from '@licensing/proto/catalog'
import { closedSets, isMember, readMember } from '@licensing/proto/closed-sets'
import { checkMoney } from '../checks.ts'
import type { BillingDependencies, Handler } from '../dependencies.ts'
import { findPrice, lockPrice, putPrice, removePrice } from './price-queries.ts'
import type { PlanScope, PriceRow } from './price-queries.ts'

export const setPrice: Handler<'setPrice'> = async (
  { change, catalog },
  { accountId, applicationId, price },
) => {
  if (!price) throw invalid('/price_id', 'is required')
  const wanted = toPriceRow(price)
  const scope = { accountId, applicationId, planId: price.planId }
  await catalog.getPlanCopy(scope)
  const put = async (tx: Transaction) => {
    await lockPrice(tx, scope)
    const before = await findPrice(tx, scope)
    const after = await putPrice(tx, scope, wanted)
    await auditPrice(tx, scope, before, after)
    return after
  }
  try {
    return priceMessage(await change(put))
  } catch (error) {
    if (brokenConstraint(error) !== 'prices_price') throw error
    throw new ServiceError(
      'already_exists',
      `another plan is mapped to price ${price.priceId}: remove that mapping first, or use another price`,
    )
  }
}

export const getPrice: Handler<'getPrice'> = async ({ sql }, request) => {
  const row = await findPrice(sql, request)
  if (!row)
    throw new ServiceError(
      'not_found',
      `plan ${request.planId.slice(0, 64)} has no price: set one with PUT …/price`,
    )
  return priceMessage(row)
}

export const deletePrice: Handler<'deletePrice'> = async ({ change }, request) => {
  await change(async (tx) => {
    const removed = await removePrice(tx, request)
    if (!removed) throw new ServiceError('not_found', `plan ${request.planId.slice(0, 64)} has no price`)
    await auditPrice(tx, request, removed, undefined)
  })
  return {}
}

async function auditPrice(
  tx: Transaction,
  { accountId, applicationId, planId }: PlanScope,
  before: PriceRow | undefined,
  after: PriceRow | undefined,
): Promise<void> {
  const changes = changesOf(PriceSchema, before && priceMessage(before), after && priceMessage(after))
  await audit(tx, { accountId, applicationId, resourceId: planId, changes })
}

const maxUpdatesMonths = 120

export function toPriceRow(price: Price): PriceRow {
  checkMoney(price.amount, price.currency)
  checkReference('/price_id', price.priceId)
  const { mode, updatesMonths } = price
  if (!isMember('priceMode', mode)) {
    throw invalid('/mode', `must be ${closedSets.priceMode.join(' or ')}`)
  }
  if (price.periodMonths !== undefined && price.periodMonths < 1) {
    throw invalid('/period_months', 'must be at least 1')
  }
  if (updatesMonths !== undefined && (updatesMonths < 1 || updatesMonths > maxUpdatesMonths)) {
    throw invalid('/updates_months', `must be a whole number from 1 to ${maxUpdatesMonths}`)
  }
  return {
    plan_id: price.planId,
    price_id: price.priceId,
    amount: price.amount,
    currency: price.currency,
    mode,
    period_months: price.periodMonths ?? null,
    updates_months: updatesMonths ?? null,
  }
}

export function priceMessage(row: PriceRow): Price {
  return messageOf(PriceSchema, { ...row, mode: readMember('priceMode', row.mode) })
}

/** The plan that is to be sold. @throws ServiceError `validation_failed` if there is none */
export async function findSoldPlan(
  { catalog }: BillingDependencies,
  { accountId, applicationId, planId }: PlanScope,
): Promise<PlanCopy> {
  try {
    return await catalog.getPlanCopy({ accountId, applicationId, planId })
  } catch (error) {
    if (!(error instanceof ServiceError) || error.code !== 'not_found') throw error
    throw invalid('/plan_id', `there is no plan ${planId} in this application`)
  }
}
