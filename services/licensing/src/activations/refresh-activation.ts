import type { MessageInitShape } from '@bufbuild/protobuf'
import { ServiceError } from '@licensing/grpc/errors'
import type { RefreshActivationRequest, TokenGrantSchema } from '@licensing/proto/products'
import type { RecordedCall } from '../call-homes/call-home.ts'
import type { ProductDependencies } from '../dependencies.ts'
import type { ActivatedLicence } from './activation-queries.ts'
import { authenticate, noActivation } from './authenticate.ts'
import { checkInstallation, checkNonce } from './check-installation.ts'
import { whyNoLease } from './leases.ts'
import { isDue, refusalReason, refused } from './may-run.ts'
import { grantMessage, latestEnd, tokenEnd } from './token.ts'

/** Grants a new token and extends the lease, if the licence still allows it. Records the call in either case. */
export async function refreshActivation(
  deps: ProductDependencies,
  request: RefreshActivationRequest,
): Promise<MessageInitShape<typeof TokenGrantSchema>> {
  checkNonce(request.nonce)
  for (let tries = 1; ; tries += 1) {
    const grant = await tryToRefresh(deps, request, tries)
    if (grant) return grant
  }
}

/** @returns undefined if the lease ended meanwhile, or the licence is not floating any more */
async function tryToRefresh(
  deps: ProductDependencies,
  request: RefreshActivationRequest,
  tries: number,
): Promise<MessageInitShape<typeof TokenGrantSchema> | undefined> {
  const found = await authenticate(deps, request)
  const { host } = checkInstallation(request)
  const now = deps.now()
  const isReplaced = isDue(found, now) && (await deps.replaceEndedPurchase(found.id))
  const licence = isReplaced ? await authenticate(deps, request) : found
  const reason = refusalReason(licence, host, now)
  // If the lease could not be extended, another transaction may have locked it. Later tries wait for the licence's
  // lock.
  const needsLease = licence.max_concurrent !== null && (!licence.has_lease || tries > 1)
  const isFull = reason === undefined && needsLease && !(await deps.takeLease(licence))
  if (reason !== undefined || isFull) {
    await recordCallHome(deps, licence, request)
    throw reason === undefined ? noLease(licence) : refused(reason)
  }
  // The token's end is recorded before the token exists: freeing the activation depends on it.
  const { leaseEndsAt } = await recordCallHome(deps, licence, request, {
    tokenEndsAt: tokenEnd([latestEnd(licence, now)], deps.tokens.lifeSeconds, now),
    leaseMinutes: licence.lease_minutes,
  })
  if (licence.lease_minutes !== null && leaseEndsAt === null) return undefined
  return grantMessage(deps, { activationId: licence.activation_id, licence, leaseEndsAt, now }, request.nonce)
}

/**
 * Records a call of a product, in every status of the licence.
 *
 * @param refreshed set if the product gets a token with this call
 */
export async function recordCallHome(
  deps: ProductDependencies,
  licence: ActivatedLicence,
  request: { host: string; productVersion: string },
  refreshed?: { tokenEndsAt: Date; leaseMinutes: number | null },
): Promise<RecordedCall> {
  const recorded = await deps.callHome({
    activationId: licence.activation_id,
    licenceId: licence.id,
    applicationId: licence.application_id,
    ...checkInstallation(request),
    seenAt: deps.now(),
    tokenEndsAt: refreshed?.tokenEndsAt ?? null,
    leaseMinutes: refreshed?.leaseMinutes ?? null,
  })
  if (!recorded.isThere) throw noActivation()
  return recorded
}

function noLease(licence: ActivatedLicence): ServiceError {
  const members = { reason: 'max_concurrent' }
  return new ServiceError('limit_reached', whyNoLease(licence), { members })
}
