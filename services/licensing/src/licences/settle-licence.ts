import type { Transaction } from '@licensing/database/connect'
import { append } from '@licensing/events/outbox'
import { licenceEvent } from './licence-event.ts'
import type { StandingRow } from './licence-queries.ts'
import type { LicenceRow } from './licence-row.ts'
import { follow } from './licence.ts'
import type { Cause, Circumstances } from './licence.ts'
import { addToCounts, writeStanding } from './transition-queries.ts'
import type { By, Given } from './transition-queries.ts'

interface Settlement {
  causes: readonly Cause[]
  circumstances: Circumstances
  by: By
  given?: Given
}

/**
 * Does to a licence what the table has for these causes, one after the other, with its history, counters and events.
 * The transaction has locked the licence and, before it, the plans that count.
 *
 * @returns undefined where the table has nothing for it as it stands
 */
export async function settle(
  tx: Transaction,
  licence: StandingRow,
  { causes, circumstances, by, given = {} }: Settlement,
): Promise<LicenceRow | undefined> {
  const followed = follow(causes, licence, circumstances)
  if (followed.steps.length === 0) return undefined
  const row = await writeStanding(tx, licence.id, followed, by, given)
  await addToCounts(tx, countsOf(licence, row))
  const events = followed.steps.flatMap(({ transition: { emits } }) => emits ?? [])
  await append(tx, ...events.map((name) => licenceEvent(name, row, licence.plan_id)))
  return row
}

/** By how much the active licences of each plan change. */
function countsOf(before: LicenceRow, after: LicenceRow): Map<string, number> {
  const counts = new Map<string, number>()
  if (before.status === 'active') counts.set(before.plan_id, -1)
  if (after.status === 'active') counts.set(after.plan_id, (counts.get(after.plan_id) ?? 0) + 1)
  return counts
}
