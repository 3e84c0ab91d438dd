import { longLockTimeout } from '@licensing/changes/change'
import type { Transaction } from '@licensing/database/connect'
import type { Received } from '@licensing/events/consumer-options'
import { invalid } from '@licensing/grpc/errors'
import { rowOf } from '@licensing/grpc/fields'
import { PlanCopySchema } from '@licensing/proto/catalog'
import type { PlanCopy } from '@licensing/proto/catalog'
import { readMember } from '@licensing/proto/closed-sets'
import type { Handler } from '../dependencies.ts'
import { changeMany } from '../lifecycle/change-many.ts'
import { bulkChanges } from '../lifecycle/licence.ts'
import { addToPlanCounts } from '../lifecycle/licence-queries.ts'
import { awaitPlans } from './awaited-plan-queries.ts'
import type { PlanVersion } from './awaited-plan-queries.ts'
import {
  changeDefinitions,
  findOutdated,
  findSuspended,
  insertArchive,
  licencesToSuspend,
  recordSuspended,
  suspensionOrder,
  upsertPlans,
} from './plan-queries.ts'
import { storedEntitlements } from './snapshot.ts'

// Other requests are answered between two steps. Measured once with 25,000 licences: the p99 of another account's detail
// during the archive was 22 ms, and 28 ms with steps of 500; the archive took 8 % longer.
const suspendedAtOnce = 100
// A large archive leaves half of the database's time to other requests. Measured once with 100,000 licences: the p99 of
// another account's detail was 2.2 times that without an archive, and 3.0 times without pauses; the archive took 31 s
// instead of 15 s.
const totalPauseMs = 15_000

/** Catalog pushes changed plans before it answers its own caller. */
export const syncPlans: Handler<'syncPlans'> = async ({ change }, { plans }) => {
  await change((tx) => applyPlanCopies(tx, plans), longLockTimeout)
  return {}
}

/** Catalog pushes changed definitions before it answers its own caller. */
export const syncDefinitions: Handler<'syncDefinitions'> = async ({ change }, request) => {
  const definitions = request.definitions.map((one) => ({
    ...one,
    kind: readMember('entitlementKind', one.kind),
  }))
  const isChange = definitions.length > 0 || request.expiringNoticeDays !== undefined
  const outdatedPlanIds = await change(async (tx) => {
    if (isChange) await changeDefinitions(tx, request, definitions, request.plans)
    return findOutdated(tx, request.epoch, request.plans)
  }, longLockTimeout)
  return { outdatedPlanIds }
}

/** Catalog pushes an archived plan, and needs to know how many licences the archive suspended. */
export const archivePlan: Handler<'archivePlan'> = async ({ change }, { plan }) => {
  if (!plan || plan.archiveVersion === 0n) throw invalid('/plan', 'an archived plan is needed')
  const suspendedLicences = await change(async (tx) => {
    await applyPlanCopies(tx, [plan])
    return findSuspended(tx, plan.id, plan.archiveVersion)
  }, longLockTimeout)
  return { suspendedLicences }
}

/**
 * Consumes catalog's events, which name the plans that have a new version. If no push brings that version, catalog is asked
 * for it (`awaited-plans.ts`): so a failed push is repaired, also the push of an archive. Versions never repeat, so they are
 * compared without their epochs.
 */
export async function consumePlanEvents(tx: Transaction, events: Pick<Received, 'event'>[]): Promise<void> {
  const latest = new Map<string, PlanVersion>()
  for (const { event } of events) {
    const { accountId: account_id, applicationId: application_id, payload } = event
    if (payload.case !== 'planCopyChanged') continue
    for (const { planId, version } of payload.value.changed) {
      const known = latest.get(planId)
      if (known && known.version >= version) continue
      latest.set(planId, { plan_id: planId, account_id, application_id, version })
    }
  }
  if (latest.size > 0) await awaitPlans(tx, [...latest.values()])
}

/**
 * Stores plan copies that are newer than the stored ones (`upsertPlans`), whether they were pushed, came with an event or were read from
 * catalog. If the plan was archived since the stored copy, its active licences are suspended in the same transaction, even
 * if it has been restored (docs/guides/entitlements.md, "Retire a plan").
 */
export async function applyPlanCopies(tx: Transaction, copies: PlanCopy[]): Promise<void> {
  const latest = latestOfEach(copies)
  if (latest.length === 0) return
  const taken = await upsertPlans(
    tx,
    latest.map((copy) => ({
      ...rowOf(PlanCopySchema, copy),
      status: readMember('planStatus', copy.status),
      entitlements: storedEntitlements(copy.entitlements),
    })),
  )
  const changes: [string, number][] = []
  for (const copy of latest) {
    if (copy.archiveVersion === 0n || !taken.has(copy.id)) continue
    changes.push(...(await applyArchive(tx, copy)))
  }
  // Counters are locked last: a transaction that waits for a counter must not hold licences that its holder may need.
  await addToPlanCounts(tx, new Map(changes))
}

function latestOfEach(copies: PlanCopy[]): PlanCopy[] {
  const latest = new Map<string, PlanCopy>()
  for (const copy of copies) {
    const known = latest.get(copy.id)
    if (!known || isNewer(copy, known)) latest.set(copy.id, copy)
  }
  return [...latest.values()].sort((a, b) => (a.id < b.id ? -1 : 1))
}

const isNewer = (copy: PlanCopy, known: PlanCopy) =>
  copy.epoch > known.epoch || (copy.epoch === known.epoch && copy.version > known.version)

/**
 * Suspends the active licences of a plan that was archived. If catalog has lost a later restore of the plan, the archive is
 * known and the plan is retired once more.
 *
 * @returns by how much the number of active licences changed, by plan
 */
async function applyArchive(tx: Transaction, copy: PlanCopy): Promise<Map<string, number>> {
  const isKnown = !(await insertArchive(tx, copy.id, copy.archiveVersion))
  if (isKnown && copy.status !== 'retired') return new Map()
  const { count, active } = await changeMany(tx, {
    change: bulkChanges.plan_archived,
    cause: `archive:${copy.id}:${copy.archiveVersion}`,
    order: suspensionOrder(tx),
    atOnce: suspendedAtOnce,
    totalPauseMs,
    select: (after, limit) => licencesToSuspend(tx, copy, after?.id ?? '', limit),
  })
  if (count > 0) await recordSuspended(tx, copy.id, copy.archiveVersion, count)
  return active
}
