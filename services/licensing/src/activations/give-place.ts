import { isDatabaseUnavailable } from '@licensing/database/problems'
import { ServiceError } from '@licensing/grpc/errors'
import { readLicenceKey } from '@licensing/formats/licence-key'
import { quotaExceeded } from '@licensing/quotas/quota'
import { createBatcher } from '@licensing/changes/batcher'
import type { ProductDependencies } from '../dependencies.ts'
import { checkFingerprint, checkInstallation } from './check-installation.ts'
import type { Installation } from './check-installation.ts'
import { isDue, refused } from './may-run.ts'
import { knownPlace, placeAll, placeOrReplace } from './places.ts'
import type { Applicant, Application, GivenPlace, Outcome } from './places.ts'

export interface Place extends GivenPlace {
  installation: Installation
}

export interface PlaceRequest {
  licenceKey: string
  fingerprint: string
  host: string
  productVersion: string
  /** The longest life of the file, if the machine has no network. */
  fileSeconds?: number
  /** Whether another activation is freed if the licence is full. */
  replacesOldest?: boolean
}

/** Activates an installation, or finds its activation. @throws ServiceError if it is refused */
export type GivePlace = (request: PlaceRequest, of?: Application) => Promise<Place>

/** Requests for one licence wait for each other without holding connections, and share a transaction. */
export function createGivePlace(deps: ProductDependencies): GivePlace {
  const queues = {
    isTransient: isDatabaseUnavailable,
    queueOf: (applicant: Applicant) => applicant.licenceKey,
  }
  const place = createBatcher<Applicant, Outcome>(
    (applicants) => deps.change((tx) => placeAll(tx, deps.now, applicants)),
    { ...queues, maxBatchSize: 100 },
  )
  // One transaction for each request, because a request may replace the activation of the request before it.
  const replace = createBatcher<Applicant, Outcome>(
    ([applicant]) => deps.change(async (tx) => [await placeOrReplace(tx, deps.now, applicant!)]),
    { ...queues, maxBatchSize: 1 },
  )
  return async (request, of) => {
    const fingerprint = checkFingerprint(request.fingerprint)
    const installation = checkInstallation(request)
    const licenceKey = readLicenceKey(request.licenceKey)
    if (licenceKey === undefined) throw unknownKey()
    const licence = await deps.lookups.licenceOf({ licenceKey, fingerprint })
    if (!licence) throw unknownKey()
    const { fileSeconds } = request
    const applicant = {
      licenceKey,
      fingerprint,
      ...installation,
      lifeSeconds: fileSeconds ?? deps.tokens.lifeSeconds,
      isOffline: fileSeconds !== undefined,
      ...(of && { of }),
    }
    let outcome = knownPlace(licence, applicant, deps.now()) ?? (await place(applicant))
    if (outcome.kind === 'refused' && isDue(outcome.licence, outcome.now)) {
      if (await deps.replaceEndedPurchase(outcome.licence.id)) outcome = await place(applicant)
    }
    if (outcome.kind === 'full' && request.replacesOldest) outcome = await replace(applicant)
    return { ...placed(outcome), installation }
  }
}

export function placed(outcome: Outcome): GivenPlace {
  switch (outcome.kind) {
    case 'placed':
      return outcome
    case 'refused':
      throw refused(outcome.reason)
    case 'full':
      throw new ServiceError('limit_reached', outcome.detail, { members: { reason: outcome.usedUp } })
    case 'over quota':
      throw quotaExceeded('activations', outcome.quota)
    case 'unknown':
      throw unknownKey()
  }
}

function unknownKey(): ServiceError {
  return new ServiceError('not_found', 'there is no licence with this key')
}
