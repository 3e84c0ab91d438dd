import type { MessageInitShape } from '@bufbuild/protobuf'
import type { Transaction } from '@licensing/database/connect'
import { newId } from '@licensing/database/ids'
import { isDatabaseUnavailable } from '@licensing/database/problems'
import { transaction } from '@licensing/database/transaction'
import { ServiceError } from '@licensing/grpc/errors'
import type { ActivateRequest, ActivateResponseSchema } from '@licensing/proto/products'
import { gather } from '../gather.ts'
import { readLicenceKey } from '../licences/licence-key.ts'
import { findPlaces, insertActivations, lockLicenceOfKey } from './activation-queries.ts'
import type { NewActivation, ProductLicence } from './activation-queries.ts'
import { refusalReason, refused } from './admission.ts'
import type { ProductDeps } from './dependencies.ts'
import { grantMessage } from './grant-message.ts'
import { checkFingerprint, checkInstallation } from './installation.ts'

interface Applicant {
  licenceKey: string
  fingerprint: string
  host: string
  productVersion: string
}

type Outcome =
  | { kind: 'placed'; activationId: string; created: boolean; licence: ProductLicence; now: Date }
  | { kind: 'refused'; reason: string }
  | { kind: 'full'; places: number }
  | { kind: 'unknown' }

type Activate = (request: ActivateRequest) => Promise<MessageInitShape<typeof ActivateResponseSchema>>

/**
 * The handler of Activate: gives a place of the licence to an installation, or finds the one it has, and grants it a
 * token. Installations of one licence wait for each other without holding connections, and go in together.
 */
export function activator(deps: ProductDeps): Activate {
  const place = gather<Applicant, Outcome>((applicants) => placeAll(deps, applicants), {
    mostTogether: 100,
    isTransient: isDatabaseUnavailable,
    laneOf: (applicant) => applicant.licenceKey,
  })
  return async (request) => {
    const fingerprint = checkFingerprint(request.fingerprint)
    const installation = checkInstallation(request)
    const licenceKey = readLicenceKey(request.licenceKey)
    if (licenceKey === undefined) throw unknownKey()
    const outcome = await place({ licenceKey, fingerprint, ...installation })
    const { activationId, created, licence, now } = placed(outcome)
    await deps.callHome({
      activationId,
      licenceId: licence.id,
      applicationId: licence.application_id,
      ...installation,
      seenAt: now.toISOString(),
    })
    return { grant: await grantMessage(deps, activationId, licence, now), created }
  }
}

/** Gives places of one licence to installations, in their order. */
async function placeAll(deps: ProductDeps, applicants: Applicant[]): Promise<Outcome[]> {
  return transaction(deps.sql, async (tx) => {
    const licence = await lockLicenceOfKey(tx, applicants[0]!.licenceKey)
    if (!licence) return applicants.map(() => ({ kind: 'unknown' }))
    const now = deps.now()
    const reasons = applicants.map(({ host }) => refusalReason(licence, host, now))
    const admitted = applicants.filter((_, at) => reasons[at] === undefined)
    const places = await givePlaces(tx, licence, admitted)
    return applicants.map((applicant, at): Outcome => {
      const reason = reasons[at]
      if (reason !== undefined) return { kind: 'refused', reason }
      const given = places.get(applicant)
      return given
        ? { kind: 'placed', ...given, licence, now }
        : { kind: 'full', places: licence.max_activations! }
    })
  })
}

/** @returns the applicants that have a place now; for the others there was none */
async function givePlaces(
  tx: Transaction,
  licence: ProductLicence,
  applicants: Applicant[],
): Promise<Map<Applicant, { activationId: string; created: boolean }>> {
  const given = new Map<Applicant, { activationId: string; created: boolean }>()
  if (applicants.length === 0) return given
  const fingerprints = applicants.map((applicant) => applicant.fingerprint)
  const { taken, known } = await findPlaces(tx, licence.id, fingerprints)
  const free = (licence.max_activations ?? Number.POSITIVE_INFINITY) - taken
  const added: NewActivation[] = []
  for (const applicant of applicants) {
    const { fingerprint, host, productVersion } = applicant
    const activationId = known.get(fingerprint)
    if (activationId !== undefined) given.set(applicant, { activationId, created: false })
    else if (added.length < free) {
      const id = newId('act')
      added.push({ id, fingerprint, host, productVersion })
      known.set(fingerprint, id)
      given.set(applicant, { activationId: id, created: true })
    }
  }
  if (added.length > 0) await insertActivations(tx, licence, added)
  return given
}

function placed(outcome: Outcome): Outcome & { kind: 'placed' } {
  switch (outcome.kind) {
    case 'placed':
      return outcome
    case 'refused':
      throw refused(outcome.reason)
    case 'full':
      throw new ServiceError(
        'limit_reached',
        `the licence is active on ${outcome.places} installations already: deactivate one of them first`,
      )
    case 'unknown':
      throw unknownKey()
  }
}

function unknownKey(): ServiceError {
  return new ServiceError('not_found', 'there is no licence with this key')
}
