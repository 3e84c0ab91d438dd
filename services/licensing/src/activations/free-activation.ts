import type { MessageInitShape } from '@bufbuild/protobuf'
import type { EmptySchema } from '@bufbuild/protobuf/wkt'
import { ServiceError } from '@licensing/grpc/errors'
import type { FreeActivationRequest } from '@licensing/proto/licensing'
import type { DeactivateRequest } from '@licensing/proto/products'
import type { LicensingDependencies, ProductDependencies } from '../dependencies.ts'
import { byProduct, freeActivation as free } from './activation-queries.ts'
import { authenticate, noActivation } from './authenticate.ts'

/** The vendor frees the activation of an installation that cannot do so itself. */
export async function freeActivation(
  { change }: LicensingDependencies,
  request: FreeActivationRequest,
): Promise<MessageInitShape<typeof EmptySchema>> {
  const freed = await change((tx) =>
    free(tx, request, request.activationId, { actor: request.actor, isItsOwn: false }),
  )
  if (!freed) {
    throw new ServiceError(
      'not_found',
      `licence ${request.licenceId} has no activation ${request.activationId}`,
    )
  }
  return {}
}

/** A product frees its own activation. */
export async function deactivate(
  deps: ProductDependencies,
  request: DeactivateRequest,
): Promise<MessageInitShape<typeof EmptySchema>> {
  const found = await authenticate(deps, request)
  const licence = { accountId: found.account_id, licenceId: found.id }
  const freed = await deps.change((tx) =>
    free(tx, licence, found.activation_id, { actor: byProduct, isItsOwn: true }),
  )
  if (!freed) throw noActivation()
  return {}
}
