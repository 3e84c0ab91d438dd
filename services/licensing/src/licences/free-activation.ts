import type { MessageInitShape } from '@bufbuild/protobuf'
import type { EmptySchema } from '@bufbuild/protobuf/wkt'
import { ServiceError } from '@licensing/grpc/errors'
import type { FreeActivationRequest } from '@licensing/proto/licensing'
import type { LicensingDependencies } from '../dependencies.ts'
import { freeActivation as free } from '../products/activation-queries.ts'

/** The vendor frees the place of an installation that cannot do it any more. */
export async function freeActivation(
  { change }: LicensingDependencies,
  request: FreeActivationRequest,
): Promise<MessageInitShape<typeof EmptySchema>> {
  const freed = await change((tx) => free(tx, request, request.activationId, request.actor))
  if (!freed) {
    throw new ServiceError(
      'not_found',
      `licence ${request.licenceId} has no activation ${request.activationId}`,
    )
  }
  return {}
}
