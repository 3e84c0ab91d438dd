import type { RefreshActivationRequest } from '@licensing/proto/products'
import type { ActivatedLicence } from './activation-queries.ts'
import { authenticate } from './authenticate.ts'
import type { ProductDependencies } from './dependencies.ts'
import { checkInstallation } from './check-installation.ts'

/** Records where a product runs, whatever the licence's status. */
export async function recordCallHome(
  deps: ProductDependencies,
  request: RefreshActivationRequest,
): Promise<ActivatedLicence> {
  const licence = await authenticate(deps, request)
  const installation = checkInstallation(request)
  await deps.callHome({
    activationId: licence.activation_id,
    licenceId: licence.id,
    applicationId: licence.application_id,
    ...installation,
    seenAt: deps.now().toISOString(),
  })
  return licence
}
