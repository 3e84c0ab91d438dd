import { LostRace } from '@licensing/changes/change'
import type { Transaction } from '@licensing/database/connect'
import { invalid } from '@licensing/grpc/errors'
import type { UpdateLicenceRequest } from '@licensing/proto/licensing'
import type { Handler } from '../dependencies.ts'
import type { PlanRow } from '../plans/plan-queries.ts'
import { lockPurchasedLicences } from '../purchases/lock-purchased-licences.ts'
import { changeLicence, noChanges, savePurchase, writeChanges } from '../purchases/changes.ts'
import type { Changes } from '../purchases/changes.ts'
import { lockPlansOf } from '../purchases/purchase-queries.ts'
import { formerGoverning } from '../purchases/purchased-licence.ts'
import type { PurchasedLicence } from '../purchases/purchased-licence.ts'
import type { FieldChanges } from '../lifecycle/history-queries.ts'
import { licenceFields } from '../lifecycle/licence-fields.ts'
import type { FieldColumns } from '../lifecycle/licence-fields.ts'
import { isInScope } from '../lifecycle/licence-queries.ts'
import { licenceMessage } from '../lifecycle/licence-row.ts'
import type { LicenceRow } from '../lifecycle/licence-row.ts'
import { applyCauses, statuses } from '../lifecycle/licence.ts'
import { conflictOf, licenceNotFound, planArchived } from '../lifecycle/refusals.ts'
import { writeHosts } from './update-queries.ts'

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
  const isAhead =
    requested.expires_on === null || (requested.expires_on && requested.expires_on > changes.now)
  if ('expires_on' in differences && !isAhead) throw invalid('/expires_on', 'must be in the future')
  const returns = licence.status === 'expired' && 'expires_on' in requested && isAhead === true
  if (Object.keys(differences).length === 0 && !returns) return licence
  if (statuses[licence.status].isOver) {
    throw conflictOf(licence, 'active', 'a revoked or retired licence cannot be changed')
  }
  const plan = plans?.get(licence.plan_id)
  if (plans && !plan) throw new LostRace()
  await changeFields(tx, changes, purchased, { requested, differences, returns, plan, actor: request.actor })
  return licence
}

interface Change {
  requested: Partial<FieldColumns>
  differences: FieldChanges
  /** Whether the change makes an expired licence valid again. */
  returns: boolean
  plan: PlanRow | undefined
  actor: string
}

async function changeFields(
  tx: Transaction,
  changes: Changes,
  purchased: PurchasedLicence,
  { requested, differences, returns, plan, actor }: Change,
): Promise<void> {
  const { licence } = purchased
  const before = { ...licence }
  const conditions = plan ? { plan: plan.status } : {}
  const extension = { causes: ['extended'], conditions, by: { actor } } as const
  const [step] = returns ? applyCauses(extension.causes, licence, conditions).steps : []
  if (returns && !step) throw planArchived(licence, 'change the end')
  Object.assign(licence, requested, { updated_at: changes.now })
  // A trial with a customer's reference is the customer's licence.
  if (differences['external_ref']) licence.trial = false
  if (licence.max_activations !== before.max_activations) licence.trial_limit = false
  changes.history.push({
    licenceId: licence.id,
    type: 'changed',
    from: before.status,
    // `changeLicence` adds an entry for a transition that has one.
    to: step && !step.transition.history ? step.to : before.status,
    actor,
    at: changes.now,
    changes: returns
      ? { ...differences, expires_on: licenceFields.changeOf('expires_on', before, licence) }
      : differences,
  })
  changes.licences.set(licence.id, licence)
  if (step) changeLicence(changes, purchased, extension)
  if ('expires_on' in requested) moveEnd(changes, purchased)
  await writeHosts(tx, licence, before.domains)
  await writeChanges(tx, changes)
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
