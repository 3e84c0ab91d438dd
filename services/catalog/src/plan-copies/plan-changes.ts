import { newId } from '@licensing/database/ids'
import { ServiceError } from '@licensing/grpc/errors'
import type { PlanCopy } from '@licensing/proto/catalog'
import type { Transaction } from '@licensing/database/connect'
import { append } from '@licensing/events/outbox'
import type { CatalogDependencies } from '../dependencies.ts'
import { listCopiesOfApplication, incrementVersions } from './plan-copy-queries.ts'
import { toPlanCopy } from './plan-copy.ts'

const checkTimeoutMs = 2_000
const syncTimeoutMs = 5_000
// A copy has up to 2,000 entitlements: this bounds what is in memory at once.
const copiesAtOnce = 50
// The most versions in one event. A version takes about 50 bytes.
const maxVersions = 5_000

/** The application whose plans have changed. */
interface ChangedApplication {
  accountId: string
  applicationId: string
}

/**
 * Checks that licensing and its database can be reached, before a change that licensing has to apply. If licensing
 * becomes unavailable after this check, the event of the change updates it later.
 *
 * @throws ServiceError `unavailable`; nothing was changed
 */
export async function checkLicensingAvailable({ licensing }: CatalogDependencies): Promise<void> {
  try {
    await licensing.countActiveLicences({ planIds: [newId('pln')] }, { timeoutMs: checkTimeoutMs })
  } catch (cause) {
    const detail = 'the licensing service is temporarily unavailable; nothing was changed'
    throw new ServiceError('unavailable', detail, { cause })
  }
}

/**
 * Sends copies to licensing, so that licences issued after the answer use the changed plans.
 *
 * @throws ServiceError `unavailable`; the change is saved, and its event brings it to licensing later
 */
export async function syncPlans(
  { licensing }: CatalogDependencies,
  copies: PlanCopy[],
  timeoutMs = syncTimeoutMs,
): Promise<void> {
  await licensing.syncPlans({ plans: copies }, { timeoutMs }).catch((cause: unknown) => {
    const detail = 'the change is saved, and takes effect as soon as the licensing service is back'
    throw new ServiceError('unavailable', detail, { cause })
  })
}

/** Sends all plans of an application to licensing. */
export async function syncAllPlans(deps: CatalogDependencies, applicationId: string): Promise<void> {
  let afterId = ''
  for (;;) {
    const rows = await listCopiesOfApplication(deps.sql, applicationId, afterId, copiesAtOnce)
    if (rows.length === 0) return
    await syncPlans(deps, rows.map(toPlanCopy))
    afterId = rows.at(-1)!.id
  }
}

/** After a change of a definition, under the application's lock: gives every plan a new version, and appends the events. */
export async function incrementAllVersions(tx: Transaction, of: ChangedApplication): Promise<void> {
  await appendPlanChanges(tx, of, await incrementVersions(tx, of.applicationId))
}

/**
 * Appends the event that tells licensing that plans have changed, even if `syncPlans` fails. It contains only their versions,
 * because a plan may have 2,000 entitlements.
 */
export async function appendPlanChanges(
  tx: Transaction,
  { accountId, applicationId }: ChangedApplication,
  versions: { planId: string; version: bigint }[],
): Promise<void> {
  for (let from = 0; from < versions.length; from += maxVersions) {
    const changed = versions.slice(from, from + maxVersions)
    await append(tx, {
      accountId,
      applicationId,
      payload: { case: 'planCopyChanged', value: { changed } },
    })
  }
}
