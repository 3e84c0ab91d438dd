import { isId } from '@licensing/database/ids'
import { ServiceError } from '@licensing/grpc/errors'
import { findActivation } from './activation-queries.ts'
import type { ActivationRow, ProductLicence } from './activation-queries.ts'
import type { ProductDeps } from './dependencies.ts'
import { isTokenOf } from './token.ts'

/** The activation that a product names, if its token is that activation's own; an expired one is good enough. */
export async function authenticate(
  { sql, keys }: ProductDeps,
  request: { activationId: string; token: string },
): Promise<{ activation: ActivationRow; licence: ProductLicence }> {
  const found = isId('act', request.activationId)
    ? await findActivation(sql, request.activationId)
    : undefined
  if (!found) throw new ServiceError('not_found', 'there is no such activation; activate again')
  const keySet = await keys.of(found.activation.application_id)
  if (!(await isTokenOf(found.activation, request.token, keySet))) {
    throw new ServiceError('unauthenticated', 'send this activation’s own token as the bearer')
  }
  return found
}
