import { LostRace } from '@licensing/changes/change'
import type { Change } from '@licensing/changes/change'
import type { Transaction } from '@licensing/database/connect'
import type { OnLocked } from '../lifecycle/licence-queries.ts'
import { reconcileLicence } from './reconcile-licence.ts'
import { noChanges, writeChanges } from './changes.ts'
import { areLocked, lockPurchasedLicences } from './lock-purchased-licences.ts'
import { lockPlansOf } from './purchase-queries.ts'
import { governingAt, formerGoverning } from './purchased-licence.ts'

/**
 * Lets the latest valid purchase govern licences whose purchase has ended, if there is one.
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
  const wanted = licenceIds.map((licenceId) => ({ licenceId, purchaseRefs: [] }))
  const plans = await lockPlansOf(tx, wanted, [], onLocked)
  const { now, licences } = await lockPurchasedLicences(tx, wanted, onLocked)
  const changes = noChanges(now)
  for (const purchased of licences.values()) {
    const former = formerGoverning(purchased)
    if (!former) continue
    if (!areLocked(plans, purchased)) {
      if (onLocked === 'skip') continue
      throw new LostRace()
    }
    const after = governingAt(purchased, changes.now)
    if (!after.isValid || after.current === former) continue
    reconcileLicence(changes, purchased, plans, { actor: 'sweep' }, { kind: 'ended', former })
  }
  await writeChanges(tx, changes)
  return changes.licences.size > 0
}
