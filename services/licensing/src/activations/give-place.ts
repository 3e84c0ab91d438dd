import type { Transaction } from '@licensing/database/connect'
import { newId } from '@licensing/database/ids'
import { isDatabaseUnavailable } from '@licensing/database/problems'
import { ServiceError } from '@licensing/grpc/errors'
import { quotaExceeded } from '@licensing/quotas/quota'
import { gather } from '../gather.ts'
import { readLicenceKey } from '../lifecycle/licence-key.ts'
import { findPlaces, insertActivations, lockLicenceOfKey } from './activation-queries.ts'
import type { NewActivation, ProductLicence } from './activation-queries.ts'
import { isDue, refusalReason, refused } from './may-run.ts'
import type { ProductDependencies } from '../dependencies.ts'
import { checkFingerprint, checkInstallation } from './check-installation.ts'
import type { Installation } from './check-installation.ts'

export interface Applicant {
  licenceKey: string
  fingerprint: string
  host: string
  productVersion: string
  /** Set if a vendor makes the request: then licences of other applications do not exist for it. */
  of?: Application
}

interface Application {
  accountId: string
  applicationId: string
}

export type Outcome =
  | { kind: 'placed'; activationId: string; created: boolean; licence: ProductLicence; now: Date }
  | { kind: 'refused'; reason: string; licence: ProductLicence; now: Date }
  | { kind: 'full'; places: number; held: number; heldUntil: Date | null }
  | { kind: 'over quota'; quota: number }
  | { kind: 'unknown' }

/** An activation of a licence with which the product may run. */
export interface Place {
  activationId: string
  created: boolean
  licence: ProductLicence
  installation: Installation
  now: Date
}

/** Activates an installation, or finds its activation. @throws ServiceError if it is refused */
export type GivePlace = (
  request: { licenceKey: string; fingerprint: string; host: string; productVersion: string },
  of?: Application,
) => Promise<Place>

/** Requests for one licence wait for each other without holding connections, and share a transaction. */
export function placeGiver(deps: ProductDependencies): GivePlace {
  const place = gather<Applicant, Outcome>(
    (applicants) => deps.change((tx) => placeAll(tx, deps.now, applicants)),
    {
      mostTogether: 100,
      isTransient: isDatabaseUnavailable,
      queueOf: (applicant) => applicant.licenceKey,
    },
  )
  return async (request, of) => {
    const fingerprint = checkFingerprint(request.fingerprint)
    const installation = checkInstallation(request)
    const licenceKey = readLicenceKey(request.licenceKey)
    if (licenceKey === undefined) throw unknownKey()
    if (!(await deps.lookups.isKnown(licenceKey))) throw unknownKey()
    const applicant = { licenceKey, fingerprint, ...installation, ...(of && { of }) }
    const outcome = await place(applicant)
    const isOver = outcome.kind === 'refused' && isDue(outcome.licence, outcome.now)
    const isReplaced = isOver && (await deps.replaceEndedPurchase(outcome.licence.id))
    return { ...placed(isReplaced ? await place(applicant) : outcome), installation }
  }
}

/** Gives places of one licence to installations, in their order. */
export async function placeAll(
  tx: Transaction,
  clock: () => Date,
  applicants: Applicant[],
): Promise<Outcome[]> {
  const licence = await lockLicenceOfKey(tx, applicants[0]!.licenceKey)
  if (!licence) return applicants.map(() => ({ kind: 'unknown' }))
  const now = clock()
  const reasons = applicants.map(({ host }) => refusalReason(licence, host, now))
  const admitted = applicants.filter((applicant, at) => isOf(licence, applicant) && reasons[at] === undefined)
  const { given: places, refusal } = await givePlaces(tx, licence, admitted)
  return applicants.map((applicant, at): Outcome => {
    if (!isOf(licence, applicant)) return { kind: 'unknown' }
    const reason = reasons[at]
    if (reason !== undefined) return { kind: 'refused', reason, licence, now }
    const given = places.get(applicant)
    if (given) return { kind: 'placed', ...given, licence, now }
    return refusal
  })
}

function isOf(licence: ProductLicence, { of }: Applicant): boolean {
  if (of === undefined) return true
  return of.accountId === licence.account_id && of.applicationId === licence.application_id
}

/** @returns the applicants that have an activation now, and the refusal for all others */
async function givePlaces(
  tx: Transaction,
  licence: ProductLicence,
  applicants: Applicant[],
): Promise<{ given: Map<Applicant, { activationId: string; created: boolean }>; refusal: Outcome }> {
  const given = new Map<Applicant, { activationId: string; created: boolean }>()
  if (applicants.length === 0) return { given, refusal: { kind: 'unknown' } }
  const fingerprints = applicants.map((applicant) => applicant.fingerprint)
  const { taken, held, heldUntil, quota, known, holding } = await findPlaces(tx, licence, fingerprints)
  const places = licence.max_activations ?? Number.POSITIVE_INFINITY
  const freeBefore = Math.min(places, quota) - taken - held
  let free = freeBefore
  const added: NewActivation[] = []
  for (const applicant of applicants) {
    const { fingerprint, host, productVersion } = applicant
    const activationId = known.get(fingerprint)
    const ownUntil = holding.get(fingerprint) ?? null
    if (activationId !== undefined) given.set(applicant, { activationId, created: false })
    else if (ownUntil !== null || free > 0) {
      const id = newId('act')
      if (ownUntil === null) free -= 1
      added.push({ id, fingerprint, host, productVersion, heldUntil: ownUntil })
      known.set(fingerprint, id)
      given.set(applicant, { activationId: id, created: true })
    }
  }
  if (added.length > 0) await insertActivations(tx, licence, added)
  // Decisions 10: the licence's own limit comes before the quota.
  const isFull = places <= taken + held + freeBefore - free
  return {
    given,
    refusal: isFull ? { kind: 'full', places, held, heldUntil } : { kind: 'over quota', quota },
  }
}

export function placed(outcome: Outcome): Outcome & { kind: 'placed' } {
  switch (outcome.kind) {
    case 'placed':
      return outcome
    case 'refused':
      throw refused(outcome.reason)
    case 'full':
      throw new ServiceError('limit_reached', whyFull(outcome))
    case 'over quota':
      throw quotaExceeded('activations', outcome.quota)
    case 'unknown':
      throw unknownKey()
  }
}

function whyFull({ places, held, heldUntil }: Outcome & { kind: 'full' }): string {
  if (heldUntil === null) {
    return `the licence is active on as many installations as it allows (${places}): deactivate one of them first`
  }
  return (
    `the licence allows ${places} activations, and ${held} that products deactivated still count: ` +
    `more than ten were deactivated on one day, and each further one counts until its last token ends, ` +
    `the next at ${heldUntil.toISOString()}. Wait until then, or ask the vendor to free an activation or to allow more`
  )
}

function unknownKey(): ServiceError {
  return new ServiceError('not_found', 'there is no licence with this key')
}
