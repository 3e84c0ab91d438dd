import { newId } from '@licensing/database/ids'
import { ServiceError } from '@licensing/grpc/errors'
import type { KeyedQueue } from '@licensing/grpc/keyed-queue'
import type { PlanCopy } from '@licensing/proto/catalog'
import type { Transaction } from '@licensing/database/connect'
import { append } from '@licensing/events/outbox'
import type { CatalogDependencies } from '../dependencies.ts'
import { incrementVersions, listCopies, listVersions } from './plan-copy-queries.ts'
import type { VersionChange } from './plan-copy-queries.ts'
import { toPlanCopy } from './plan-copy.ts'

const checkTimeoutMs = 2_000
const syncTimeoutMs = 5_000
// A copy has up to 2,000 entitlements: this bounds what is in memory at once.
const copiesAtOnce = 10
// Between two parts licensing serves other accounts.
const changedAtOnce = 200
// More changes that wait together are sent as whole copies.
const maxDefinitions = 20
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
  await orUnavailable(licensing.syncPlans({ plans: copies }, { timeoutMs }))
}

function orUnavailable<T>(call: Promise<T>): Promise<T> {
  return call.catch((cause: unknown) => {
    const detail = 'the change is saved, and takes effect as soon as the licensing service is back'
    throw new ServiceError('unavailable', detail, { cause })
  })
}

/** A change of a definition or of the application, in all of its plans. */
export interface ChangeOfAll {
  definition?: { id: string; key: string; kind: string; default: string; deleted: boolean }
  expiringNoticeDays?: number
  versions: VersionChange[]
}

/** Changes of the plans of an application that licensing does not have yet: several changes that wait are sent together. */
interface Push {
  definitions: Map<string, NonNullable<ChangeOfAll['definition']>>
  expiringNoticeDays: number | undefined
  plans: Map<string, { fromVersion: bigint; version: bigint; epoch: bigint; values: Record<string, string> }>
}

/** The pushes of each application that wait for an earlier one, by application. */
const waiting = new WeakMap<KeyedQueue, Map<string, { push: Push; done: Promise<void> }>>()

/**
 * Brings a change of an application's plans to licensing. Licensing applies it to its own copies, so only the change is sent;
 * plans whose copy is out of date are sent whole. Pushes of one application run one at a time, and those that wait become one.
 *
 * @param change undefined if nothing has changed: an earlier call may have saved a change without reaching licensing
 */
export async function syncAllPlans(
  deps: CatalogDependencies,
  of: ChangedApplication,
  change?: ChangeOfAll,
): Promise<void> {
  const pushes = waiting.get(deps.pushes) ?? new Map<string, { push: Push; done: Promise<void> }>()
  waiting.set(deps.pushes, pushes)
  const versions = change?.versions ?? (await listVersions(deps.sql, of.applicationId))
  const known = pushes.get(of.applicationId)
  if (known) {
    addTo(known.push, versions, change)
    return known.done
  }
  const push: Push = { definitions: new Map(), expiringNoticeDays: undefined, plans: new Map() }
  addTo(push, versions, change)
  const waits = { push, done: Promise.resolve() }
  pushes.set(of.applicationId, waits)
  const leave = () => pushes.get(of.applicationId) === waits && pushes.delete(of.applicationId)
  waits.done = deps.pushes
    .run(of.applicationId, async () => {
      leave()
      await send(deps, of, push)
    })
    // The queue refuses it if the first caller has given up.
    .finally(leave)
  return waits.done
}

function addTo(push: Push, versions: VersionChange[], change: ChangeOfAll | undefined): void {
  const { definition } = change ?? {}
  if (definition) push.definitions.set(definition.key, definition)
  push.expiringNoticeDays = change?.expiringNoticeDays ?? push.expiringNoticeDays
  for (const { planId, fromVersion, version, epoch, value } of versions) {
    const before = push.plans.get(planId)
    // If a change is missing between the two, licensing does not have this version, and gets a whole copy.
    const from = before && before.version !== fromVersion ? -1n : (before?.fromVersion ?? fromVersion)
    const values = { ...before?.values }
    if (definition) delete values[definition.key]
    if (definition && value !== null) values[definition.key] = value
    const isLater = !before || before.version < version
    push.plans.set(planId, { ...(isLater ? { version, epoch } : before), fromVersion: from, values })
  }
}

async function send(deps: CatalogDependencies, of: ChangedApplication, push: Push): Promise<void> {
  const definitions = push.definitions.size > maxDefinitions ? [] : [...push.definitions.values()]
  const isWhole = push.definitions.size > maxDefinitions
  const plans = [...push.plans].map(([planId, plan]) => ({
    planId,
    ...plan,
    ...(isWhole && { fromVersion: -1n }),
  }))
  for (let from = 0; from < plans.length; from += changedAtOnce) {
    const part = plans.slice(from, from + changedAtOnce)
    const request = {
      accountId: of.accountId,
      applicationId: of.applicationId,
      epoch: part[0]!.epoch,
      definitions,
      ...(push.expiringNoticeDays !== undefined && { expiringNoticeDays: push.expiringNoticeDays }),
      plans: part,
    }
    const { outdatedPlanIds: ids } = await orUnavailable(
      deps.licensing.syncDefinitions(request, { timeoutMs: syncTimeoutMs }),
    )
    for (let at = 0; at < ids.length; at += copiesAtOnce) {
      const rows = await listCopies(deps.sql, ids.slice(at, at + copiesAtOnce))
      await syncPlans(deps, rows.map(toPlanCopy))
    }
  }
}

/**
 * After a change of a definition or of the application, under the application's lock: gives every plan a new version, and
 * appends the events.
 */
export async function incrementAllVersions(
  tx: Transaction,
  { accountId, applicationId }: ChangedApplication,
  change: Omit<ChangeOfAll, 'versions'>,
): Promise<ChangeOfAll> {
  const versions = await incrementVersions(tx, applicationId, change.definition?.id ?? null)
  await appendPlanChanges(tx, { accountId, applicationId }, versions)
  return { ...change, versions }
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
    const changed = versions
      .slice(from, from + maxVersions)
      .map(({ planId, version }) => ({ planId, version }))
    await append(tx, {
      accountId,
      applicationId,
      payload: { case: 'planCopyChanged', value: { changed } },
    })
  }
}
