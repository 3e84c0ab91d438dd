import { newId } from '@licensing/database/ids'
import { ServiceError } from '@licensing/grpc/errors'
import type { PlanCopy } from '@licensing/proto/catalog'
import type { Transaction } from '@licensing/database/connect'
import { append } from '@licensing/events/outbox'
import type { CatalogDependencies } from '../dependencies.ts'
import { copiesOfApplication, raiseVersions } from './plan-copy-queries.ts'
import { toPlanCopy } from './plan-copy.ts'

const askTimeoutMs = 2_000
const pushTimeoutMs = 5_000

/**
 * Before a change that licensing has to follow: is it there, with its database? Then the change is not begun where it
 * could not take effect; what fails after this is repaired by the event.
 *
 * @throws ServiceError `unavailable`, with nothing changed
 */
export async function requireLicensing({ licensing }: CatalogDependencies): Promise<void> {
  const unavailable = (cause: unknown) =>
    new ServiceError('unavailable', 'the licensing service is temporarily unavailable; nothing was changed', {
      cause,
    })
  try {
    await licensing.calls.countActiveLicences({ planIds: [newId('pln')] }, { timeoutMs: askTimeoutMs })
  } catch (error) {
    throw unavailable(error)
  }
}

/**
 * Hands copies to licensing, so that what is issued after the answer follows the change.
 *
 * @throws ServiceError `unavailable` that says that the change is saved: its event brings it to licensing
 */
export async function push(
  { licensing }: CatalogDependencies,
  copies: PlanCopy[],
  timeoutMs = pushTimeoutMs,
): Promise<void> {
  await licensing.calls.syncPlans({ plans: copies }, { timeoutMs }).catch((error: unknown) => {
    throw savedOnly('the change is saved, and takes effect as soon as the licensing service is back', error)
  })
}

export function savedOnly(detail: string, cause: unknown): ServiceError {
  return new ServiceError('unavailable', detail, { cause })
}

// Bounds what is in memory at once: a copy has up to 2,000 entitlements.
const batchSize = 50

/** After a change of a definition, under the application's lock: every plan gets a new version, published in events. */
export async function changeAllPlans(tx: Transaction, of: Announcement): Promise<void> {
  await announceVersions(tx, of, await raiseVersions(tx, of.applicationId))
}

/** Hands all plans of an application to licensing as they stand now. */
export async function pushPlansOf(deps: CatalogDependencies, applicationId: string): Promise<void> {
  let afterId = ''
  for (;;) {
    const rows = await copiesOfApplication(deps.sql, applicationId, afterId, batchSize)
    if (rows.length === 0) return
    await push(deps, rows.map(toPlanCopy))
    afterId = rows.at(-1)!.id
  }
}

/** Whose plans have changed. */
interface Announcement {
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
async function announceVersions(
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
