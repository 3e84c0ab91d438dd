import { isId } from '@licensing/database/ids'
import { ServiceError } from '@licensing/grpc/errors'
import type { ActivatedLicence } from './activation-queries.ts'
import type { ProductDependencies } from '../dependencies.ts'
import { readToken } from './token.ts'

/** The activation that a product names, if the token was made for it. The token may have expired. */
export async function authenticate(
  { findActivation, keys }: Pick<ProductDependencies, 'findActivation' | 'keys'>,
  request: { activationId: string; token: string },
): Promise<ActivatedLicence> {
  const claims = await readToken(request.token, keys)
  if (!claims) throw notItsToken()
  const found = isId('act', request.activationId) ? await findActivation(request.activationId) : undefined
  if (!found) throw noActivation()
  const isOwnToken =
    claims['act'] === found.activation_id && claims.sub === found.id && claims.aud === found.application_id
  if (!isOwnToken) throw notItsToken()
  return found
}

export function noActivation(): ServiceError {
  return new ServiceError('not_found', 'there is no such activation: activate again')
}

function notItsToken(): ServiceError {
  return new ServiceError('unauthenticated', 'send this activation’s own token as the bearer')
}
