import { isStorable } from '@licensing/proto/text'
import type { Handler } from '../dependencies.ts'
import { findLicencesOf } from './payment-queries.ts'

const mostFound = 20

/** Finds licences by references that only billing knows. */
export const findLicencesOfSale: Handler<'findLicencesOfSale'> = async ({ sql }, request) => {
  if (!isStorable(request.query)) return { licences: [] }
  const found = await findLicencesOf(sql, request, mostFound)
  return { licences: found.map(({ licence_id: licenceId, matched }) => ({ licenceId, matched })) }
}
