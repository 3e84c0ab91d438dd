import type { ActivatedLicence } from './activation-queries.ts'
import { noActivation } from './authenticate.ts'
import type { ProductDependencies } from '../dependencies.ts'
import { checkInstallation } from './check-installation.ts'

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
