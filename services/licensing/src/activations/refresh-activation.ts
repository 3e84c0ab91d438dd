import type { MessageInitShape } from '@bufbuild/protobuf'
import type { RefreshActivationRequest, TokenGrantSchema } from '@licensing/proto/products'
import type { ActivatedLicence } from './activation-queries.ts'
import { authenticate, noActivation } from './authenticate.ts'
import { checkInstallation, checkNonce } from './check-installation.ts'
import type { ProductDependencies } from '../dependencies.ts'
import { grantMessage, latestEnd, tokenEnd } from './token.ts'
import { isDue, refusalReason, refused } from './may-run.ts'

/** A new token, if the licence still allows it. The call is recorded in either case. */
export async function refreshActivation(
  deps: ProductDependencies,
  request: RefreshActivationRequest,
): Promise<MessageInitShape<typeof TokenGrantSchema>> {
  checkNonce(request.nonce)
  const found = await authenticate(deps, request)
  const { host } = checkInstallation(request)
  const now = deps.now()
  const isReplaced = isDue(found, now) && (await deps.replaceEndedPurchase(found.id))
  const licence = isReplaced ? await authenticate(deps, request) : found
  const reason = refusalReason(licence, host, now)
  // The token's end is recorded before the token exists: freeing the activation depends on it.
  const end = tokenEnd(latestEnd(licence, now), deps.tokens.lifeSeconds, now)
  await recordCallHome(deps, licence, request, reason === undefined ? end : undefined)
  if (reason !== undefined) throw refused(reason)
  return grantMessage(deps, licence.activation_id, licence, now, request.nonce)
}

/**
 * Records a call of a product, in every status of the licence.
 *
 * @param tokenEndsAt the end of the token that it gets with this call
 */
export async function recordCallHome(
  deps: ProductDependencies,
  licence: ActivatedLicence,
  request: { host: string; productVersion: string },
  tokenEndsAt?: Date,
): Promise<void> {
  const isThere = await deps.callHome({
    activationId: licence.activation_id,
    licenceId: licence.id,
    applicationId: licence.application_id,
    ...checkInstallation(request),
    seenAt: deps.now().toISOString(),
    tokenEndsAt: tokenEndsAt?.toISOString() ?? null,
  })
  if (!isThere) throw noActivation()
}
