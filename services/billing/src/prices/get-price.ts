import type { MessageInitShape } from '@bufbuild/protobuf'
import { ServiceError } from '@licensing/grpc/errors'
import type { GetPriceRequest, PriceSchema } from '@licensing/proto/billing'
import type { BillingDependencies } from '../dependencies.ts'
import { findPrice } from './price-queries.ts'
import { priceMessage } from './price.ts'

export async function getPrice(
  { sql }: BillingDependencies,
  request: GetPriceRequest,
): Promise<MessageInitShape<typeof PriceSchema>> {
  const row = await findPrice(sql, request)
  if (!row) throw new ServiceError('not_found', `plan ${request.planId.slice(0, 64)} has no price`)
  return priceMessage(row)
}
