import { timestampDate } from '@bufbuild/protobuf/wkt'
import { LostRace } from '@licensing/changes/change'
import type { Transaction } from '@licensing/database/connect'
import { checkMetadata, checkReference } from '@licensing/grpc/checks'
import { invalid } from '@licensing/grpc/errors'
import type { UpdateLicenceRequest } from '@licensing/proto/licensing'
import { changedMetadata } from '@licensing/proto/metadata'
import type { Metadata } from '@licensing/proto/metadata'
import type { Handler } from '../dependencies.ts'
import { lockPurchasedLicences } from '../purchases/lock-purchased-licences.ts'
import {
  changeLicence,
  differencesAmong,
  noChanges,
  restrictionsOf,
  savePurchase,
  timesOf,
  writeChanges,
} from '../purchases/changes.ts'
import type { Changes } from '../purchases/changes.ts'
import { lockPlansOf } from '../purchases/purchase-queries.ts'
import { formerGoverning, governingAt, timeAfterKnownEvents } from '../purchases/purchased-licence.ts'
import type { PurchasedLicence } from '../purchases/purchased-licence.ts'
import type { FieldChanges } from '../lifecycle/history-queries.ts'
import { isInScope } from '../lifecycle/licence-queries.ts'
import { licenceMessage } from '../lifecycle/licence-row.ts'
import type { LicenceRow } from '../lifecycle/licence-row.ts'
import { leads, statuses, statusOf } from '../lifecycle/licence.ts'
import type { LicenceState } from '../lifecycle/licence.ts'
import { conflictOf, licenceNotFound, planArchived } from '../lifecycle/refusals.ts'
import { checkRestrictions } from './restrictions.ts'
import { writeTerms } from './update-queries.ts'

/** The fields in a request. */
type RequestedFields = Partial<
  Pick<
    LicenceRow,
    | 'external_ref'
    | 'domains'
    | 'max_activations'
    | 'max_seats'
    | 'max_concurrent'
    | 'lease_minutes'
    | 'expires_on'
    | 'metadata'
    | 'updates_until'
  >
>

/** Changes a licence's own fields (docs/guides/licences.md, "Find and change a licence"). */
export const updateLicence: Handler<'updateLicence'> = async ({ change }, request) => {
  const requested = readFields(request)
  if (request.metadata) checkMetadataChange(request.metadata)
  return licenceMessage(await change((tx) => update(tx, request, requested)))
}

function readFields(request: UpdateLicenceRequest): RequestedFields {
  const { externalRef, restrictions, expiresOn, neverExpires, updatesUntil, unlimitedUpdates } = request
  if (externalRef !== undefined) checkReference('/external_ref', externalRef)
  const checked = restrictions && checkRestrictions(restrictions)
  return {
    ...(externalRef !== undefined && { external_ref: externalRef }),
    ...(checked && {
      domains: checked.domains,
      max_activations: checked.maxActivations,
      max_seats: checked.maxSeats,
      max_concurrent: checked.maxConcurrent,
      lease_minutes: checked.leaseMinutes,
    }),
    ...(expiresOn && { expires_on: timestampDate(expiresOn) }),
    ...(neverExpires && { expires_on: null }),
    ...(updatesUntil && { updates_until: timestampDate(updatesUntil) }),
    ...(unlimitedUpdates === true && { updates_until: null }),
  }
}

type MetadataChange = NonNullable<UpdateLicenceRequest['metadata']>

/** @throws ServiceError `validation_failed` with a pointer to the invalid entry */
function checkMetadataChange({ set, remove }: MetadataChange): void {
  checkMetadata({ entries: set })
  for (const name of remove) checkMetadata({ entries: { [name]: '' } })
}

/** @throws ServiceError `validation_failed` if it would have too many entries */
function metadataAfter(before: Metadata, change: MetadataChange): Metadata {
  const { metadata, problem } = changedMetadata(before, change)
  if (problem !== undefined) throw invalid('/metadata', problem)
  return metadata
}

async function update(
  tx: Transaction,
  request: UpdateLicenceRequest,
  fields: RequestedFields,
): Promise<LicenceRow> {
  const { licenceId } = request
  // Lock order: the plan before the licence. The plan matters only for a new end, which can make the licence active.
  const wanted = [{ licenceId, purchaseRefs: [] }]
  const plans = 'expires_on' in fields ? await lockPlansOf(tx, wanted, []) : undefined
  const { now, licences } = await lockPurchasedLicences(tx, wanted)
  const purchased = licences.get(licenceId)
  if (!purchased || !isInScope(purchased.licence, request)) {
    throw licenceNotFound(request)
  }
  const { licence } = purchased
  const { metadata } = request
  const requested = metadata ? { ...fields, metadata: metadataAfter(licence.metadata, metadata) } : fields
  const changes = noChanges(now)
  const differences = differencesOf(licence, requested)
  const { expires_on: end } = requested
  const isAhead = end === null || (end !== undefined && end > now)
  if ('expires_on' in differences && !isAhead) throw invalid('/expires_on', 'must be in the future')
  const returns = licence.status === 'expired' && isAhead
  if (Object.keys(differences).length === 0 && !returns) return licence
  if (statuses[licence.status].isOver) {
    throw conflictOf(licence, 'active', 'a revoked or retired licence cannot be changed')
  }
  const plan = plans?.get(licence.plan_id)
  if (plans && !plan) throw new LostRace()
  const former = { ...licence }
  const after = { ...former, ...requested, ...(isAhead && stateWithEnd(purchased, end, now)) }
  const isReactivated = after.status === 'active' && former.status !== 'active'
  if (isReactivated && plan?.status === 'retired') throw planArchived(licence, 'change the end')
  const ends = { expires_on: timesOf(former.expires_on, after.expires_on) }
  changeLicence(
    changes,
    purchased,
    after,
    [returns ? leads.extended : leads.changed],
    { actor: request.actor },
    returns ? { ...differences, ...ends } : differences,
  )
  // A trial with a customer's reference is the customer's licence.
  if (differences['external_ref']) licence.trial = false
  if (after.max_activations !== former.max_activations) licence.trial_limit = false
  // Problems after its end did not count until now.
  if (isReactivated) licence.reactivated_at = timeAfterKnownEvents(purchased, now)
  if ('expires_on' in requested) moveEnd(changes, purchased)
  await writeTerms(tx, licence, former.domains)
  await writeChanges(tx, changes)
  return licence
}

/** The state of a licence with a new end: nothing else changes, except that a cancellation does not count. */
function stateWithEnd(purchased: PurchasedLicence, end: Date | null, now: Date): LicenceState {
  const { hold, purchase: former } = purchased.licence
  const purchase = former === 'canceled' ? governingAt(purchased, now).uncancelled : former
  return { hold, purchase, ...statusOf({ hold, purchase, end, now }) }
}

/** Makes the purchase that governs the licence valid until the new end, whatever its renewals or a cancellation require. */
function moveEnd(changes: Changes, purchased: PurchasedLicence): void {
  const purchase = formerGoverning(purchased)
  if (!purchase) return
  const { expires_on: end } = purchased.licence
  Object.assign(purchase, { ends_at: end, bought_ends_at: end, end_revision: purchase.end_revision + 1 })
  if (!purchase.money_returned) purchase.terminated_at = null
  savePurchase(changes, purchase)
}

/** The changes that a request makes, for the history. */
function differencesOf(licence: LicenceRow, requested: RequestedFields): FieldChanges {
  const after = { ...licence, ...requested }
  return differencesAmong({
    external_ref: { from: licence.external_ref, to: after.external_ref },
    restrictions: { from: restrictionsOf(licence), to: restrictionsOf(after) },
    expires_on: timesOf(licence.expires_on, after.expires_on),
    metadata: { from: byName(licence.metadata), to: byName(after.metadata) },
    updates_until: timesOf(licence.updates_until, after.updates_until),
  })
}

/** The entries in the order of their names: PostgreSQL has an order of its own. */
function byName(metadata: Metadata): Metadata {
  return Object.fromEntries(Object.entries(metadata).sort(([a], [b]) => (a < b ? -1 : 1)))
}
