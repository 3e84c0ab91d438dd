import type { MessageInitShape } from '@bufbuild/protobuf'
import type { FindLicencesOfSaleRequest, FindLicencesOfSaleResponseSchema } from '@licensing/proto/billing'
import { isStorable } from '@licensing/proto/text'
import type { BillingDependencies } from '../dependencies.ts'
import { findLicencesOf } from './payment-queries.ts'

const mostFound = 20

/** Finds licences by references that only billing knows. */
export async function findLicencesOfSale(
  { sql }: BillingDependencies,
  request: FindLicencesOfSaleRequest,
): Promise<MessageInitShape<typeof FindLicencesOfSaleResponseSchema>> {
  if (!isStorable(request.query)) return { licences: [] }
  const found = await findLicencesOf(sql, request, mostFound)
  return { licences: found.map(({ licence_id: licenceId, matched }) => ({ licenceId, matched })) }
}
