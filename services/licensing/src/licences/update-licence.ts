import { LostRace } from '@licensing/changes/change'
import type { Transaction } from '@licensing/database/connect'
import { invalid } from '@licensing/grpc/errors'
import type { UpdateLicenceRequest } from '@licensing/proto/licensing'
import type { Handler } from '../dependencies.ts'
import { lockPurchasedLicences } from '../purchases/lock-purchased-licences.ts'
import { changeLicence, noChanges, savePurchase, writeChanges } from '../purchases/changes.ts'
import type { Changes } from '../purchases/changes.ts'
import { lockPlansOf } from '../purchases/purchase-queries.ts'
import { formerGoverning, governingAt, timeAfterKnownEvents } from '../purchases/purchased-licence.ts'
import type { PurchasedLicence } from '../purchases/purchased-licence.ts'
import { licenceFields } from '../lifecycle/licence-fields.ts'
import { isInScope } from '../lifecycle/licence-queries.ts'
import { licenceMessage } from '../lifecycle/licence-row.ts'
import type { LicenceRow } from '../lifecycle/licence-row.ts'
import { leads, statuses, statusOf } from '../lifecycle/licence.ts'
import type { LicenceState } from '../lifecycle/licence.ts'
import { conflictOf, licenceNotFound, planArchived } from '../lifecycle/refusals.ts'
import { writeFloating, writeHosts } from './update-queries.ts'

/** Changes a licence's own fields (docs/guides/licences.md, "Find and change a licence"). */
export const updateLicence: Handler<'updateLicence'> = async ({ change }, request) =>
  licenceMessage(await change((tx) => update(tx, request)))

async function update(tx: Transaction, request: UpdateLicenceRequest): Promise<LicenceRow> {
  const { licenceId, mask } = request
  // Lock order: the plan before the licence. The plan matters only for a new end, which can make the licence active.
  const wanted = [{ licenceId, purchaseRefs: [] }]
  const plans = mask?.paths.includes('expires_on') ? await lockPlansOf(tx, wanted, []) : undefined
  const { now, licences } = await lockPurchasedLicences(tx, wanted)
  const purchased = licences.get(licenceId)
  if (!purchased || !isInScope(purchased.licence, request)) {
    throw licenceNotFound(request)
  }
  const { licence } = purchased
  const requested = licenceFields.ofChange(licence, request)
  const changes = noChanges(now)
  const differences = licenceFields.differences(licence, { ...licence, ...requested })
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
  const ends = { expires_on: licenceFields.changeOf('expires_on', former, after) }
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
  await writeHosts(tx, licence, former.domains)
  await writeFloating(tx, licence, former)
  await writeChanges(tx, changes)
  return licence
}

/** The state of a licence with a new end: nothing else changes, except that a cancellation does not count. */
function stateWithEnd(purchased: PurchasedLicence, end: Date | null, now: Date): LicenceState {
  const { hold, purchase: former } = purchased.licence
  const purchase = former === 'cancelled' ? governingAt(purchased, now).uncancelled : former
  return { hold, purchase, ...statusOf({ hold, purchase, end, now }) }
}

/** Makes the purchase that governs the licence valid until the new end, whatever its renewals or a cancellation require. */
function moveEnd(changes: Changes, purchased: PurchasedLicence): void {
  const purchase = formerGoverning(purchased)
  if (!purchase) return
  const { expires_on: end } = purchased.licence
  Object.assign(purchase, { ends_at: end, bought_ends_at: end, end_revision: purchase.end_revision + 1 })
  if (!purchase.money_returned) purchase.terminated_at = null
  purchase.cancelled_to = null
  savePurchase(changes, purchase)
}
