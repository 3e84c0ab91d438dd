import type { MessageInitShape } from '@bufbuild/protobuf'
import { invalid } from '@licensing/grpc/errors'
import { closedSets, isMember } from '@licensing/proto/closed-sets'
import type { ActivateRequest, ActivateResponseSchema } from '@licensing/proto/products'
import { checkNonce } from './check-installation.ts'
import type { ProductDependencies } from '../dependencies.ts'
import type { GivePlace, Place } from './give-place.ts'
import { grantMessage } from './token.ts'

/** Activates an installation, or finds its activation, and grants it a token. */
export async function activate(
  deps: ProductDependencies,
  givePlace: GivePlace,
  request: ActivateRequest,
): Promise<MessageInitShape<typeof ActivateResponseSchema>> {
  const { nonce, replace } = request
  checkNonce(nonce)
  checkReplacement(replace)
  const asked = { ...request, replacesOldest: replace === 'oldest' }
  const place = await recordedPlace(deps, () => givePlace(asked))
  return { grant: await grantMessage(deps, place, nonce), created: place.created }
}

function checkReplacement(replace: string | undefined): void {
  if (replace === undefined || isMember('activationReplacement', replace)) return
  throw invalid('/replace', `must be ${closedSets.activationReplacement.join(' or ')}`)
}

/**
 * Activates an installation, then records the call and the end of its token, both before the token is made. If an activation
 * that existed before was freed in between, it is made again. A new activation that was replaced in between gets its token
 * all the same: the token's end is recorded already.
 */
export async function recordedPlace<P extends Place>(
  deps: ProductDependencies,
  givePlace: () => Promise<P>,
): Promise<P> {
  for (;;) {
    const place = await givePlace()
    const { isThere } = await deps.callHome({
      activationId: place.activationId,
      licenceId: place.licence.id,
      applicationId: place.licence.application_id,
      ...place.installation,
      seenAt: place.now.toISOString(),
      tokenEndsAt: place.tokenEndsAt.toISOString(),
      leaseMinutes: null,
    })
    if (isThere || place.created) return place
  }
}
