import type { Transaction } from '@licensing/database/connect'
import { startDatabaseLoop } from '@licensing/database/database-loop'
import { databaseTime } from '@licensing/database/time-queries'
import type { Loop } from '@licensing/process/loop'
import { hasUnrecordedEnds, lockLicencesWithEnds } from '../overrides/override-queries.ts'
import { recordEnds } from '../overrides/record-ends.ts'
import type { SweepDependencies, SweepOptions } from './sweep-expiries.ts'

const endsAtOnce = 200

/**
 * Records the ends of overrides, with their events. Tokens need no sweep: they never outlive an override. Replicas share
 * the work: each skips licences that another one has locked.
 */
export function startOverrideSweep({ intervalMs, log, ...deps }: SweepOptions): Loop {
  return startDatabaseLoop('sweep of overrides', log, intervalMs, (signal) => sweepOverrides(deps, signal))
}

/** One sweep, until no end is left that it can lock. */
export async function sweepOverrides(
  { sql, change }: SweepDependencies,
  signal?: AbortSignal,
): Promise<void> {
  // A transaction takes four statements, and mostly nothing has ended.
  if (!(await hasUnrecordedEnds(sql))) return
  while (!signal?.aborted && (await change(sweepSome)) === endsAtOnce) {
    // Until a batch is not full.
  }
}

/** @returns how many ends it found */
async function sweepSome(tx: Transaction): Promise<number> {
  const locked = await lockLicencesWithEnds(tx, endsAtOnce)
  // A licence is locked once for each of its overrides.
  const licences = new Map(locked.map((licence) => [licence.id, licence]))
  if (licences.size > 0) await recordEnds(tx, [...licences.values()], await databaseTime(tx))
  return locked.length
}
