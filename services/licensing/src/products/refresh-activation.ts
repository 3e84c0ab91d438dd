import type { MessageInitShape } from '@bufbuild/protobuf'
import type { EmptySchema } from '@bufbuild/protobuf/wkt'
import { ServiceError } from '@licensing/grpc/errors'
import type { DeactivateRequest, RefreshActivationRequest, TokenGrantSchema } from '@licensing/proto/products'
import { deleteActivation } from './activation-queries.ts'
import { refusalReason, refused } from './admission.ts'
import { authenticate } from './authenticate.ts'
import type { ProductDeps } from './dependencies.ts'
import { grantMessage } from './grant-message.ts'

/** A new token, unless the licence does not allow it any more; either way the product has called home. */
export async function refreshActivation(
  deps: ProductDeps,
  request: RefreshActivationRequest,
): Promise<MessageInitShape<typeof TokenGrantSchema>> {
  const { activation, licence } = await recordCallHome(deps, request)
  const now = deps.now()
  const reason = refusalReason(licence, request.host.toLowerCase(), now)
  if (reason !== undefined) throw refused(reason)
  return grantMessage(deps, activation.id, licence, now)
}

/** Records where a product runs, whatever the licence's status. */
export async function recordCallHome(
  deps: ProductDeps,
  request: RefreshActivationRequest,
): ReturnType<typeof authenticate> {
  const found = await authenticate(deps, request)
  await deps.callHome({
    activationId: found.activation.id,
    licenceId: found.activation.licence_id,
    applicationId: found.activation.application_id,
    host: request.host.toLowerCase(),
    productVersion: request.productVersion,
    seenAt: deps.now().toISOString(),
  })
  return found
}

/** Frees the activation's place. */
export async function deactivate(
  deps: ProductDeps,
  request: DeactivateRequest,
): Promise<MessageInitShape<typeof EmptySchema>> {
  const { activation } = await authenticate(deps, request)
  if (!(await deleteActivation(deps.sql, activation.id))) {
    throw new ServiceError('not_found', 'there is no such activation')
  }
  return {}
}
