import type { MessageInitShape } from '@bufbuild/protobuf'
import type { EmptySchema } from '@bufbuild/protobuf/wkt'
import { transaction } from '@licensing/database/transaction'
import { ServiceError } from '@licensing/grpc/errors'
import type { FreeActivationRequest } from '@licensing/proto/licensing'
import type { LicensingDependencies } from '../dependencies.ts'
import { freeActivation as free } from './activation-queries.ts'

/** The vendor frees the place of an installation that cannot do it any more. */
export async function freeActivation(
  { sql, patience }: LicensingDependencies,
  request: FreeActivationRequest,
): Promise<MessageInitShape<typeof EmptySchema>> {
  const freed = await patience((hurry) =>
    transaction(sql, (tx) => {
      hurry(tx)
      return free(tx, request, request.activationId, request.actor)
    }),
  )
  if (!freed) {
    throw new ServiceError(
      'not_found',
      `licence ${request.licenceId} has no activation ${request.activationId}`,
    )
  }
  return {}
}
