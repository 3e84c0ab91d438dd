import type { Transaction } from '@licensing/database/connect'
import { append } from '@licensing/events/outbox'
import type { PlanCopy } from '@licensing/proto/catalog'

/** Whose plans have changed. */
export interface Announcement {
  accountId: string
  applicationId: string
}

// Some 50 bytes each.
const mostVersions = 5_000

/** Writes the event by which licensing learns of this copy, whether or not it can be pushed. */
export async function announce(tx: Transaction, of: Announcement, { id, version }: PlanCopy): Promise<void> {
  await announceVersions(tx, of, [{ planId: id, version }])
}

/** Says which plans have changed: nothing of what they resolve to, which may be 2,000 values each. */
export async function announceVersions(
  tx: Transaction,
  { accountId, applicationId }: Announcement,
  versions: { planId: string; version: bigint }[],
): Promise<void> {
  for (let from = 0; from < versions.length; from += mostVersions) {
    const changed = versions.slice(from, from + mostVersions)
    await append(tx, {
      accountId,
      applicationId,
      payload: { case: 'planCopyChanged', value: { plans: [], changed } },
    })
  }
}
