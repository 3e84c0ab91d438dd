import type { MessageInitShape } from '@bufbuild/protobuf'
import { invalid } from '@licensing/grpc/errors'
import { closedSets, isMember } from '@licensing/proto/closed-sets'
import type { ActivateRequest, ActivateResponseSchema } from '@licensing/proto/products'
import { checkNonce } from './check-installation.ts'
import type { ProductDependencies } from '../dependencies.ts'
import type { GiveSlot, Slot } from './give-slot.ts'
import { grantMessage } from './token.ts'

/** Activates an installation, or finds its activation, and grants it a token. */
export async function activate(
  deps: ProductDependencies,
  giveSlot: GiveSlot,
  request: ActivateRequest,
): Promise<MessageInitShape<typeof ActivateResponseSchema>> {
  const { nonce, replace } = request
  checkNonce(nonce)
  checkReplacement(replace)
  const asked = { ...request, replacesOldest: replace === 'oldest' }
  const slot = await recordedSlot(deps, () => giveSlot(asked))
  return { grant: await grantMessage(deps, slot, nonce), created: slot.created }
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
export async function recordedSlot<P extends Slot>(
  deps: ProductDependencies,
  giveSlot: () => Promise<P>,
): Promise<P> {
  for (;;) {
    const slot = await giveSlot()
    const { isThere } = await deps.callHome({
      activationId: slot.activationId,
      licenceId: slot.licence.id,
      applicationId: slot.licence.application_id,
      ...slot.installation,
      seenAt: slot.now,
      tokenEndsAt: slot.tokenEndsAt,
      leaseMinutes: null,
    })
    if (isThere || slot.created) return slot
  }
}
