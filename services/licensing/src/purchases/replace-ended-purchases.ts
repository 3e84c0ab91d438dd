import { LostRace } from '@licensing/changes/change'
import type { Change } from '@licensing/changes/change'
import type { Transaction } from '@licensing/database/connect'
import { databaseTime } from '@licensing/database/time-queries'
import type { OnLocked } from '../lifecycle/licence-queries.ts'
import { alignLicence } from './align-licence.ts'
import { lockPurchasedLicences } from './apply-batch.ts'
import { noChanges, writeChanges } from './changes.ts'
import { lockPlansOf } from './purchase-queries.ts'
import { basisAt, restsOn } from './purchased-licence.ts'

/**
 * Makes licences whose purchase has ended rest on their latest valid purchase, if there is one.
 *
 * @returns whether any licence changed
 */
export async function replaceEndedPurchases(
  change: Change,
  licenceIds: string[],
  onLocked: OnLocked,
): Promise<boolean> {
  return change((tx) => replaceIn(tx, licenceIds, onLocked))
}

// Lock order: plans before licences.
async function replaceIn(tx: Transaction, licenceIds: string[], onLocked: OnLocked): Promise<boolean> {
  const plans = await lockPlansOf(tx, licenceIds, [], onLocked)
  const licences = await lockPurchasedLicences(tx, licenceIds, onLocked)
  const changes = noChanges(await databaseTime(tx))
  for (const purchased of licences.values()) {
    const { licence, purchases } = purchased
    const restedOn = restsOn(purchased)
    if (!restedOn) continue
    const possible = [licence.plan_id, ...purchases.map((purchase) => purchase.plan_id)]
    if (possible.some((planId) => !plans.has(planId))) {
      if (onLocked === 'skip') continue
      throw new LostRace()
    }
    const after = basisAt(purchased, changes.now)
    if (!after.isValid || after.current === restedOn) continue
    const change = { kind: 'ended' as const, restedOn, before: after, after }
    alignLicence(changes, purchased, plans, { actor: 'sweep' }, change)
  }
  await writeChanges(tx, changes)
  return changes.licences.size > 0
}
