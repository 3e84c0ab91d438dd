import type { MessageInitShape } from '@bufbuild/protobuf'
import type { EmptySchema } from '@bufbuild/protobuf/wkt'
import type { DeactivateRequest, RefreshActivationRequest, TokenGrantSchema } from '@licensing/proto/products'
import { deleteActivation } from './activation-queries.ts'
import type { ActivatedLicence } from './activation-queries.ts'
import { refusalReason, refused } from './admission.ts'
import { authenticate, noActivation } from './authenticate.ts'
import type { ProductDeps } from './dependencies.ts'
import { grantMessage } from './grant-message.ts'
import { checkInstallation } from './installation.ts'

/** A new token, unless the licence does not allow it any more; either way the product has called home. */
export async function refreshActivation(
  deps: ProductDeps,
  request: RefreshActivationRequest,
): Promise<MessageInitShape<typeof TokenGrantSchema>> {
  const licence = await recordCallHome(deps, request)
  const now = deps.now()
  const reason = refusalReason(licence, request.host.toLowerCase(), now)
  if (reason !== undefined) throw refused(reason)
  return grantMessage(deps, licence.activation_id, licence, now)
}

/** Records where a product runs, whatever the licence's status. */
export async function recordCallHome(
  deps: ProductDeps,
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

/** Frees the activation's place. */
export async function deactivate(
  deps: ProductDeps,
  request: DeactivateRequest,
): Promise<MessageInitShape<typeof EmptySchema>> {
  const { activation_id: activationId } = await authenticate(deps, request)
  if (!(await deleteActivation(deps.sql, activationId))) throw noActivation()
  return {}
}
