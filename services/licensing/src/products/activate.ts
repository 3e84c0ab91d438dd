import type { MessageInitShape } from '@bufbuild/protobuf'
import type { ActivateRequest, ActivateResponseSchema } from '@licensing/proto/products'
import { checkNonce } from './check-installation.ts'
import type { ProductDependencies } from './dependencies.ts'
import type { GivePlace, Place } from './give-place.ts'
import { grantMessage } from './grant-message.ts'

/** Gives a place of the licence to an installation, or finds the one it has, and grants it a token. */
export async function activate(
  deps: ProductDependencies,
  givePlace: GivePlace,
  request: ActivateRequest,
): Promise<MessageInitShape<typeof ActivateResponseSchema>> {
  checkNonce(request.nonce)
  const place = await givePlace(request)
  await recordActivation(deps, place)
  return {
    grant: await grantMessage(deps, place.activationId, place.licence, place.now, request.nonce),
    created: place.created,
  }
}

/** An activation counts as a call-home. */
export function recordActivation(deps: ProductDependencies, place: Place): Promise<void> {
  return deps.callHome({
    activationId: place.activationId,
    licenceId: place.licence.id,
    applicationId: place.licence.application_id,
    ...place.installation,
    seenAt: place.now.toISOString(),
  })
}
