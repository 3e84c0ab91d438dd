import type { MessageInitShape } from '@bufbuild/protobuf'
import type { EmptySchema } from '@bufbuild/protobuf/wkt'
import { createBatcher } from '@licensing/changes/batcher'
import type { Transaction } from '@licensing/database/connect'
import { isDatabaseUnavailable } from '@licensing/database/problems'
import { ServiceError } from '@licensing/grpc/errors'
import type { FreeActivationRequest } from '@licensing/proto/licensing'
import type { DeactivateRequest } from '@licensing/proto/products'
import type { LicensingDependencies, ProductDependencies } from '../dependencies.ts'
import { byProduct, freeActivation as free } from './activation-queries.ts'
import type { ActivatedLicence } from './activation-queries.ts'
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

/** A product frees its own activation. Requests for one licence share a transaction. */
export function createDeactivate(
  deps: ProductDependencies,
): (request: DeactivateRequest) => Promise<MessageInitShape<typeof EmptySchema>> {
  const freeOwn = createBatcher<ActivatedLicence, boolean>(
    (activations) => deps.change((tx) => freeAll(tx, activations)),
    { maxBatchSize: 50, isTransient: isDatabaseUnavailable, queueOf: ({ id }) => id },
  )
  return async (request) => {
    if (!(await freeOwn(await authenticate(deps, request)))) throw noActivation()
    return {}
  }
}

/** Frees activations of one licence, in their order. */
async function freeAll(tx: Transaction, activations: ActivatedLicence[]): Promise<boolean[]> {
  const freed: boolean[] = []
  for (const { account_id: accountId, id: licenceId, activation_id } of activations) {
    freed.push(await free(tx, { accountId, licenceId }, activation_id, { actor: byProduct, isItsOwn: true }))
  }
  return freed
}
