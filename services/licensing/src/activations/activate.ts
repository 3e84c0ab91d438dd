import type { MessageInitShape } from '@bufbuild/protobuf'
import type { ActivateRequest, ActivateResponseSchema } from '@licensing/proto/products'
import { checkNonce } from './check-installation.ts'
import type { ProductDependencies } from '../dependencies.ts'
import type { GivePlace, Place } from './give-place.ts'
import { grantMessage } from './grant-message.ts'
import { tokenEnd } from './token.ts'

/** Gives a place of the licence to an installation, or finds the one it has, and grants it a token. */
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
 * Gives a place, and records it as a call-home and until when its token will last, before the token is there: if the
 * activation is freed in between, that makes another one.
 */
export async function recordedPlace(
  deps: ProductDependencies,
  givePlace: () => Promise<Place>,
  lifeSeconds: number,
): Promise<Place> {
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
