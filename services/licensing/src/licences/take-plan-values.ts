import { LostRace } from '@licensing/changes/change'
import type { Transaction } from '@licensing/database/connect'
import { LicenceSchema } from '@licensing/proto/licensing'
import type { LifecycleRequest } from '@licensing/proto/licensing'
import type { Handler } from '../dependencies.ts'
import { statuses } from '../lifecycle/licence.ts'
import { isInScope } from '../lifecycle/licence-queries.ts'
import { licenceMessage } from '../lifecycle/licence-row.ts'
import type { LicenceRow } from '../lifecycle/licence-row.ts'
import { conflictOf, licenceNotFound } from '../lifecycle/refusals.ts'
import { findOverrides } from '../overrides/override-queries.ts'
import { hasEnded } from '../overrides/override.ts'
import { recordChanges } from '../overrides/record-changes.ts'
import { recordEnds } from '../overrides/record-ends.ts'
import { effectiveEntitlements } from '../plans/effective.ts'
import type { SnapshotEntitlement } from '../plans/snapshot.ts'
import { findAllEntitlements, storeSnapshots } from '../plans/snapshot-queries.ts'
import { lockPurchasedLicences } from '../purchases/lock-purchased-licences.ts'
import { noChanges, savePurchase, writeChanges } from '../purchases/changes.ts'
import type { Changes } from '../purchases/changes.ts'
import { lockPlansOf, replaceRenewedSnapshot } from '../purchases/purchase-queries.ts'
import { formerGoverning } from '../purchases/purchased-licence.ts'
import type { PurchasedLicence } from '../purchases/purchased-licence.ts'

/** Replaces the snapshot of a licence by the entitlements that its plan grants now (docs/guides/licences.md, "Other values for one customer"). */
export const takePlanValues: Handler<'takePlanValues'> = async ({ change }, request) => {
  const answer = { schema: LicenceSchema, toMessage: licenceMessage }
  return licenceMessage(await change((tx) => takeIn(tx, request), { answer }))
}

async function takeIn(tx: Transaction, request: LifecycleRequest): Promise<LicenceRow> {
  const { licenceId, actor } = request
  // Lock order: the plan before the licence. A newer copy of the plan waits.
  const wanted = [{ licenceId, purchaseRefs: [] }]
  const plans = await lockPlansOf(tx, wanted, [])
  const { now, licences } = await lockPurchasedLicences(tx, wanted)
  const purchased = licences.get(licenceId)
  if (!purchased || !isInScope(purchased.licence, request)) throw licenceNotFound(request)
  const { licence } = purchased
  const plan = plans.get(licence.plan_id)
  if (!plan) throw new LostRace()
  if (statuses[licence.status].isOver) {
    throw conflictOf(licence, plan.status, 'a revoked or retired licence keeps its entitlements')
  }
  const formerId = licence.snapshot_id
  if (formerId === plan.snapshot_id) return licence
  const changes = noChanges(now)
  await recordEnds(tx, [licence], changes.now)
  await replaceSnapshot(tx, changes, purchased, plan.snapshot_id)
  const entitlements = await findAllEntitlements(tx, [formerId, plan.snapshot_id])
  const [captured, granted] = [entitlements.get(formerId)!, entitlements.get(plan.snapshot_id)!]
  const overrides = (await findOverrides(tx, [licenceId])).filter((one) => !hasEnded(one, changes.now))
  const change = {
    licence,
    before: effectiveEntitlements(licence.status, captured, overrides),
    after: effectiveEntitlements(licence.status, granted, overrides),
    changes: { entitlements: { from: captured.map(inRest), to: granted.map(inRest) } },
    actor,
  }
  await recordChanges(tx, [change], changes.now)
  return licence
}

/**
 * Replaces the snapshot of the licence and of the purchase that governs it. The next payment would restore the
 * former one otherwise.
 */
async function replaceSnapshot(
  tx: Transaction,
  changes: Changes,
  purchased: PurchasedLicence,
  snapshotId: string,
): Promise<void> {
  const { licence } = purchased
  const { plan_id: planId } = licence
  Object.assign(licence, { snapshot_id: snapshotId, updated_at: changes.now })
  changes.licences.set(licence.id, licence)
  await storeSnapshots(tx, [licence])
  const purchase = formerGoverning(purchased)
  if (purchase?.plan_id === planId) {
    purchase.snapshot_id = snapshotId
    if (purchase.bought_plan_id === planId) purchase.bought_snapshot_id = snapshotId
    savePurchase(changes, purchase)
    await replaceRenewedSnapshot(tx, purchase, snapshotId)
  }
  await writeChanges(tx, changes)
}

/** An entry of `entitlements` in the detail. */
const inRest = ({ key, kind, value }: SnapshotEntitlement) => ({ key, kind, value })
