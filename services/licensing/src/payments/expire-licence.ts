import type { MessageInitShape } from '@bufbuild/protobuf'
import type { LicenceSchema, PaymentCauseRequest } from '@licensing/proto/licensing'
import type { LicensingDeps } from '../dependencies.ts'
import { applyToLocked, once } from './draw-consequence.ts'
import { makeExpiryFinal } from './payment-queries.ts'

/** The licence's subscription is cancelled. */
export async function expireLicence(
  deps: LicensingDeps,
  request: PaymentCauseRequest,
): Promise<MessageInitShape<typeof LicenceSchema>> {
  return once(deps, 'subscriptionCancelled', request, async (tx, licence, planIsActive) => {
    await makeExpiryFinal(tx, licence.id)
    return applyToLocked(tx, 'subscriptionCancelled', licence, planIsActive, request.cause)
  })
}
