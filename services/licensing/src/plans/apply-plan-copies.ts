import type { Transaction } from '@licensing/database/connect'
import { append } from '@licensing/events/outbox'
import type { PlanCopy } from '@licensing/proto/catalog'
import { licenceEvent, transitions } from '../licences/licence.ts'
import type { ChangedLicence } from '../licences/licence.ts'
import { addToCounts, changeLicencesUncounted } from '../licences/transition-queries.ts'
import { insertArchive, insertSnapshots, recordSuspended, upsertPlans } from './plan-queries.ts'
import { snapshotOf } from './snapshot.ts'

// Rows and events of one step: bounds memory and how long this process is deaf to others, not the transaction.
const suspendedAtOnce = 500

/**
 * Takes over plans whose version is newer than the copy held, however they came: by push, by event or read from the
 * catalog. A copy that was archived since suspends the plan's active licences in the same transaction, also where a
 * restore has followed (interface 3.2: a restore reactivates none).
 */
export async function applyPlanCopies(tx: Transaction, copies: PlanCopy[]): Promise<void> {
  const latest = latestOfEach(copies)
  if (latest.length === 0) return
  const snapshots = latest.map((copy) => snapshotOf(copy.entitlements))
  await insertSnapshots(tx, [...new Map(snapshots.map((snapshot) => [snapshot.id, snapshot])).values()])
  const taken = await upsertPlans(
    tx,
    latest.map((copy, at) => ({ ...copy, snapshotId: snapshots[at]!.id })),
  )
  const activeChanges = new Map<string, number>()
  for (const copy of latest) {
    if (copy.archiveVersion === 0n || !taken.has(copy.id)) continue
    activeChanges.set(copy.id, -(await applyArchive(tx, copy)))
  }
  // Counters come last: a verb that holds one already may be waited for by nobody who still wants licences.
  await addToCounts(tx, activeChanges)
}

function latestOfEach(copies: PlanCopy[]): PlanCopy[] {
  const latest = new Map<string, PlanCopy>()
  for (const copy of copies) {
    const known = latest.get(copy.id)
    if (!known || known.version < copy.version) latest.set(copy.id, copy)
  }
  return [...latest.values()].sort((a, b) => (a.id < b.id ? -1 : 1))
}

/** @returns how many licences it suspended */
async function applyArchive(tx: Transaction, copy: PlanCopy): Promise<number> {
  if (!(await insertArchive(tx, copy.id, copy.archiveVersion))) return 0
  const by = { actor: copy.archivedBy || 'catalog', cause: `archive:${copy.id}:${copy.archiveVersion}` }
  const suspendAfter = (afterId: string) => {
    const selection = tx`
      select l.id, l.status, l.status_reason
      from licence_statuses s cross join lateral (
        select id, status, status_reason from licences
        where id = s.licence_id and plan_id = ${copy.id} and status = 'active' for update
      ) l
      where s.plan_id = ${copy.id} and s.status = 'active' and s.licence_id > ${afterId}
      order by s.licence_id limit ${suspendedAtOnce}`
    const step = changeLicencesUncounted(tx, selection, transitions.planArchived, by)
    // Where the step before fails, nobody waits for this one.
    step.catch(() => {})
    return step
  }
  let suspended = 0
  for (let step: Promise<ChangedLicence[]> | undefined = suspendAfter(''); step;) {
    const changed: ChangedLicence[] = await step
    const isLast = changed.length < suspendedAtOnce
    // PostgreSQL is at the next step while the events of this one are made.
    step = isLast ? undefined : suspendAfter(changed.at(-1)!.id)
    await append(tx, ...changed.map((licence) => licenceEvent('licenceSuspended', licence)))
    suspended += changed.length
  }
  if (suspended > 0) await recordSuspended(tx, copy.id, copy.archiveVersion, suspended)
  return suspended
}
