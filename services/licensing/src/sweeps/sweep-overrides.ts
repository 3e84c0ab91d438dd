import type { Change } from '@licensing/changes/change'
import type { Database, Transaction } from '@licensing/database/connect'
import { isDatabaseOutage } from '@licensing/database/problems'
import type { Logger } from '@licensing/process/log'
import { startLoop } from '@licensing/process/loop'
import type { Loop } from '@licensing/process/loop'
import { hasUnrecordedEnds, lockLicencesWithEnds } from '../overrides/override-queries.ts'
import { recordEnds } from '../overrides/record-ends.ts'
import { databaseTime } from '../purchases/purchase-queries.ts'

interface Databases {
  sql: Database
  change: Change
}

interface OverrideSweepOptions extends Databases {
  intervalMs: number
  log: Logger
}

const endsAtOnce = 200

/**
 * Records the ends of overrides, with their events. Tokens need no sweep: they never outlive an override. Replicas share
 * the work: each skips licences that another one has locked.
 */
export function startOverrideSweep({ sql, change, intervalMs, log }: OverrideSweepOptions): Loop {
  return startLoop({
    work: (signal) => sweepOverrides({ sql, change }, signal),
    everyMs: intervalMs,
    failed: (error) => log.warn({ err: error }, 'sweep of overrides failed, trying again'),
    isOutage: isDatabaseOutage,
  })
}

/** One sweep, until no end is left that it can lock. */
export async function sweepOverrides({ sql, change }: Databases, signal?: AbortSignal): Promise<void> {
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
