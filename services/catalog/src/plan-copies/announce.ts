import type { Transaction } from '@licensing/database/connect'
import { append } from '@licensing/events/outbox'
import type { PlanCopy } from '@licensing/proto/catalog'
import type { PlanEvents } from '../dependencies.ts'
import { partsOf } from './plan-copy.ts'

// JetStream takes messages of up to 1 MB.
const mostEventBytes = 512 * 1024

/** Of an application: whose plans have changed, and how its events say so. */
export interface Announcement {
  accountId: string
  applicationId: string
  planEvents: PlanEvents
}

// Some 50 bytes each.
const mostVersions = 5_000

/** Writes the events that bring these copies to licensing, whether or not they can be pushed. */
export async function announce(tx: Transaction, of: Announcement, copies: PlanCopy[]): Promise<void> {
  if (of.planEvents === 'versions') {
    return announceVersions(
      tx,
      of,
      copies.map(({ id, version }) => ({ planId: id, version })),
    )
  }
  const { accountId, applicationId } = of
  const parts = partsOf(copies, mostEventBytes)
  await append(
    tx,
    ...parts.map((plans) => ({
      accountId,
      applicationId,
      payload: { case: 'planCopyChanged' as const, value: { plans, changed: [] } },
    })),
  )
}

/** Says which plans have changed: nothing of what they resolve to, which may be 2,000 values each. */
export async function announceVersions(
  tx: Transaction,
  { accountId, applicationId }: Omit<Announcement, 'planEvents'>,
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
