import { ServiceError } from '@licensing/grpc/errors'
import type { DeletePriceRequest } from '@licensing/proto/billing'
import type { BillingDependencies } from '../dependencies.ts'
import { removePrice } from './price-queries.ts'

export async function deletePrice(
  { sql }: BillingDependencies,
  request: DeletePriceRequest,
): Promise<Record<string, never>> {
  if (!(await removePrice(sql, request))) {
    throw new ServiceError('not_found', `plan ${request.planId.slice(0, 64)} has no price`)
  }
  return {}
}
