import type { MessageInitShape } from '@bufbuild/protobuf'
import type { ActivateRequest, ActivateResponseSchema } from '@licensing/proto/products'
import { checkNonce } from './check-installation.ts'
import type { ProductDependencies } from '../dependencies.ts'
import type { GivePlace, Place } from './give-place.ts'
import { grantMessage, tokenEnd } from './token.ts'

/** Activates an installation, or finds its activation, and grants it a token. */
export async function activate(
  deps: ProductDependencies,
  givePlace: GivePlace,
  request: ActivateRequest,
): Promise<MessageInitShape<typeof ActivateResponseSchema>> {
  checkNonce(request.nonce)
  const place = await recordedPlace(deps, () => givePlace(request), deps.tokens.lifeSeconds)
  return {
    grant: await grantMessage(deps, place.activationId, place.licence, place.now, request.nonce),
    created: place.created,
  }
}

/**
 * Activates an installation, then records the call and the end of its token, both before the token is made. If the
 * activation was freed in between, it is made again.
 */
export async function recordedPlace<P extends Place>(
  deps: ProductDependencies,
  givePlace: () => Promise<P>,
  lifeSeconds: number,
): Promise<P> {
  for (;;) {
    const place = await givePlace()
    const isThere = await deps.callHome({
      activationId: place.activationId,
      licenceId: place.licence.id,
      applicationId: place.licence.application_id,
      ...place.installation,
      seenAt: place.now.toISOString(),
      tokenEndsAt: tokenEnd(place.licence.expires_on, lifeSeconds, place.now).toISOString(),
    })
    if (isThere) return place
  }
}
