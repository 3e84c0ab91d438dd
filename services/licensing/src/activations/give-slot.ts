import { isDatabaseUnavailable } from '@licensing/database/problems'
import { ServiceError } from '@licensing/grpc/errors'
import { readLicenceKey } from '@licensing/formats/licence-key'
import { quotaExceeded } from '@licensing/quotas/quota'
import { createBatcher } from '@licensing/changes/batcher'
import type { ProductDependencies } from '../dependencies.ts'
import { checkFingerprint, checkInstallation } from './check-installation.ts'
import type { Installation } from './check-installation.ts'
import { isDue, refused } from './may-run.ts'
import { knownSlot, assignSlots, assignOrReplace, unknown } from './slots.ts'
import type { Applicant, Application, GivenSlot, SlotOutcome } from './slots.ts'

export interface Slot extends GivenSlot {
  installation: Installation
}

export interface SlotRequest {
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
export type GiveSlot = (request: SlotRequest, of?: Application) => Promise<Slot>

/**
 * Requests of an application share transactions, which skip licences that others have locked. Requests for such a licence
 * wait for each other without holding connections, and share a transaction of their own. So do requests for a floating
 * licence or a file: they take statements for each licence, and may wait for locks of activations.
 */
export function createGiveSlot(deps: ProductDependencies): GiveSlot {
  const options = { isTransient: isDatabaseUnavailable, maxBatchSize: 100 }
  const queues = { ...options, queueOf: ({ licenceKey }: Applicant) => licenceKey }
  const together = createBatcher<Applicant & { applicationId: string }, SlotOutcome | undefined>(
    (applicants) => deps.change((tx) => assignSlots(tx, deps.now, applicants, 'skip')),
    { ...options, queueOf: ({ applicationId }) => applicationId },
  )
  const waiting = createBatcher<Applicant, SlotOutcome | undefined>(
    (applicants) => deps.change((tx) => assignSlots(tx, deps.now, applicants)),
    queues,
  )
  // One transaction for each request, because a request may replace the activation of the request before it.
  const replace = createBatcher<Applicant, SlotOutcome>(
    ([applicant]) => deps.change(async (tx) => [await assignOrReplace(tx, deps.now, applicant!)]),
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
    const isAlone = licence.max_concurrent !== null || applicant.isOffline
    const slot = async () =>
      (isAlone ? undefined : await together({ ...applicant, applicationId: licence.application_id })) ??
      (await waiting(applicant)) ??
      unknown
    let outcome = knownSlot(licence, applicant, deps.now()) ?? (await slot())
    if (outcome.kind === 'refused' && isDue(outcome.licence, outcome.now)) {
      if (await deps.replaceEndedPurchase(outcome.licence.id)) outcome = await slot()
    }
    if (outcome.kind === 'full' && request.replacesOldest) outcome = await replace(applicant)
    return { ...assigned(outcome), installation }
  }
}

export function assigned(outcome: SlotOutcome): GivenSlot {
  switch (outcome.kind) {
    case 'assigned':
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
