import type { MessageInitShape } from '@bufbuild/protobuf'
import type { EmptySchema } from '@bufbuild/protobuf/wkt'
import { createBatcher } from '@licensing/changes/batcher'
import type { Transaction } from '@licensing/database/connect'
import { isDatabaseUnavailable } from '@licensing/database/problems'
import { ServiceError } from '@licensing/grpc/errors'
import type { FreeActivationRequest } from '@licensing/proto/licensing'
import type { DeactivateRequest } from '@licensing/proto/products'
import type { LicensingDependencies, ProductDependencies } from '../dependencies.ts'
import type { ActivatedLicence } from './activation-queries.ts'
import { authenticate, noActivation } from './authenticate.ts'
import {
  byProduct,
  countToday,
  freeActivations,
  freesPerDay,
  holdSlot,
  lockLicence,
  lockOwn,
} from './freeing-queries.ts'
import type { LockedLicence, OwnActivation } from './freeing-queries.ts'
import { endLease } from './lease-queries.ts'

/** The vendor frees the activation of an installation that cannot do so itself, or a slot that it still keeps. */
export async function freeActivation(
  { change }: LicensingDependencies,
  request: FreeActivationRequest,
): Promise<MessageInitShape<typeof EmptySchema>> {
  const { licenceId, activationId, actor } = request
  const freed = await change(async (tx) => {
    const licence = await lockLicence(tx, request)
    return licence ? freeActivations(tx, licence, [activationId], actor) : 0
  })
  if (freed === 0) {
    throw new ServiceError('not_found', `licence ${licenceId} has no activation ${activationId}`)
  }
  return {}
}

type ByProduct = (request: DeactivateRequest) => Promise<MessageInitShape<typeof EmptySchema>>

/**
 * A product deactivates its installation. The activation is freed at once, unless its slot counts for longer: until its
 * file has ended, and until its last token has ended if products have freed too much of the licence today. Otherwise one
 * licence could run on any number of machines one after the other, each with a token for a day.
 */
export function createDeactivate(deps: ProductDependencies): ByProduct {
  const deactivateOwn = createFreeOwn(deps, async (tx, licence, own) => {
    const keepsToken = own.is_running && !(await mayFree(tx, licence))
    if (licence.max_concurrent !== null) await endLease(tx, licence.id, own.id, keepsToken)
    if (await holdSlot(tx, own.id, keepsToken)) return
    await freeActivations(tx, licence, [own.id], byProduct)
  })
  return async (request) => {
    if (!(await deactivateOwn(await authenticate(deps, request)))) throw noActivation()
    return {}
  }
}

/** A product ends the lease of its activation, under the same rule. */
export function createRelease(deps: ProductDependencies): ByProduct {
  const releaseOwn = createFreeOwn(deps, async (tx, licence, own) => {
    if (licence.max_concurrent === null || !own.has_lease) return
    const keepsToken = own.is_running && !(await mayFree(tx, licence))
    await endLease(tx, licence.id, own.id, keepsToken)
  })
  return async (request) => {
    const found = await authenticate(deps, request)
    if (found.has_lease) await releaseOwn(found)
    return {}
  }
}

async function mayFree(tx: Transaction, licence: LockedLicence): Promise<boolean> {
  if (licence.max_activations === null && licence.max_concurrent === null) return true
  return countToday(tx, licence.id, 'own', freesPerDay.own)
}

/** Requests for one licence share a transaction. The function that it returns answers whether there is the activation. */
function createFreeOwn(
  { change }: ProductDependencies,
  free: (tx: Transaction, licence: LockedLicence, own: OwnActivation) => Promise<void>,
): (activation: ActivatedLicence) => Promise<boolean> {
  const freeAll = async (tx: Transaction, activations: ActivatedLicence[]): Promise<boolean[]> => {
    const { account_id: accountId, id: licenceId } = activations[0]!
    const licence = (await lockLicence(tx, { accountId, licenceId }))!
    const ids = activations.map(({ activation_id }) => activation_id)
    const own = await lockOwn(tx, licenceId, ids)
    const freed: boolean[] = []
    for (const id of ids) {
      const activation = own.get(id)
      own.delete(id)
      if (activation) await free(tx, licence, activation)
      freed.push(activation !== undefined)
    }
    return freed
  }
  return createBatcher<ActivatedLicence, boolean>((activations) => change((tx) => freeAll(tx, activations)), {
    maxBatchSize: 50,
    isTransient: isDatabaseUnavailable,
    queueOf: ({ id }) => id,
  })
}
