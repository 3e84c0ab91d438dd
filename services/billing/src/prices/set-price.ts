import type { MessageInitShape } from '@bufbuild/protobuf'
import { brokenConstraint } from '@licensing/database/problems'
import { invalid, ServiceError } from '@licensing/grpc/errors'
import type { PriceSchema, SetPriceRequest } from '@licensing/proto/billing'
import type { BillingDependencies } from '../dependencies.ts'
import { putPrice } from './price-queries.ts'
import { priceMessage, toPriceRow } from './price.ts'

export async function setPrice(
  { sql, catalog }: BillingDependencies,
  { accountId, applicationId, price }: SetPriceRequest,
): Promise<MessageInitShape<typeof PriceSchema>> {
  if (!price) throw invalid('/price_id', 'is required')
  const wanted = toPriceRow(price)
  await catalog.getPlanCopy({ accountId, applicationId, planId: price.planId })
  try {
    return priceMessage(await putPrice(sql, { accountId, applicationId }, wanted))
  } catch (error) {
    if (brokenConstraint(error) !== 'prices_price') throw error
    throw new ServiceError(
      'already_exists',
      `another plan is mapped to price ${price.priceId}: remove that mapping first, or use another price`,
    )
  }
}
