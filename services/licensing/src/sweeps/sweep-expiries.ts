import { longLockTimeout } from '@licensing/changes/change'
import type { Change } from '@licensing/changes/change'
import type { Database, Transaction } from '@licensing/database/connect'
import { startDatabaseLoop } from '@licensing/database/database-loop'
import type { Logger } from '@licensing/process/log'
import type { Loop } from '@licensing/process/loop'
import { Counter } from 'prom-client'
import { changeMany } from '../lifecycle/change-many.ts'
import { bulkChanges } from '../lifecycle/licence.ts'
import { addToPlanCounts } from '../lifecycle/licence-queries.ts'
import { markFallen } from '../purchases/purchase-queries.ts'
import { replaceEndedPurchases } from '../purchases/replace-ended-purchases.ts'
import { dueOrder, findEndedPurchases, isAnyPast, licencesPast } from './sweep-queries.ts'
import type { Due } from './sweep-queries.ts'

export interface SweepDependencies {
  sql: Database
  change: Change
}

export interface SweepOptions extends SweepDependencies {
  intervalMs: number
  log: Logger
}

// One sweeper works while the other commits.
const sweepers = 2
// Steps per transaction. A verb on one of its licences may wait for all of them, up to 100 ms each.
const stepsAtOnce = 2
const expiredAtOnce = 500
const replacedAtOnce = 100
const markedAtOnce = 1_000

const expired = new Counter({ name: 'licences_expired_total', help: 'Licences that the sweep has expired' })

/**
 * Expires licences whose end has passed, every `intervalMs` milliseconds and until none is left, so that it catches up
 * after a downtime. Replicas share the work: each skips licences that another one has locked.
 */
export function startSweep({ intervalMs, log, ...deps }: SweepOptions): Loop {
  return startDatabaseLoop(
    'sweep',
    log,
    intervalMs,
    async (signal) => void (await sweepExpiries(deps, signal)),
  )
}

/** One sweep. @returns how many licences it expired */
export async function sweepExpiries(
  { sql, change }: SweepDependencies,
  signal?: AbortSignal,
): Promise<number> {
  while (!signal?.aborted && (await markFallen(sql, markedAtOnce)) >= markedAtOnce) {
    // Until fewer than a full batch are left.
  }
  if (!(await isAnyPast(sql))) return 0
  const totals = await Promise.all(Array.from({ length: sweepers }, () => expireInBatches(change, signal)))
  await replaceInBatches(sql, change, signal)
  return totals.reduce((sum, total) => sum + total, 0)
}

/** Lets another valid purchase govern licences whose purchase has ended. */
async function replaceInBatches(
  sql: Database,
  change: Change,
  signal: AbortSignal | undefined,
): Promise<void> {
  let last: Due | undefined
  do {
    const due: Due[] = await findEndedPurchases(sql, last, replacedAtOnce)
    if (due.length > 0) {
      await replaceEndedPurchases(
        change,
        due.map(({ id }) => id),
        'skip',
      )
    }
    last = due.length < replacedAtOnce ? undefined : due.at(-1)
  } while (last && !signal?.aborted)
}

async function expireInBatches(change: Change, signal: AbortSignal | undefined): Promise<number> {
  let total = 0
  let last: Due | undefined
  do {
    const after = last
    const past = await change((tx) => expirePast(tx, after), longLockTimeout)
    expired.inc(past.count)
    total += past.count
    last = past.last
  } while (last && !signal?.aborted)
  return total
}

async function expirePast(
  tx: Transaction,
  start: Due | undefined,
): Promise<{ count: number; last?: Due | undefined }> {
  const { count, last, active } = await changeMany(tx, {
    change: bulkChanges.end_passed,
    order: dueOrder(tx),
    select: (after, limit) => licencesPast(tx, after ?? start, limit),
    steps: stepsAtOnce,
    atOnce: expiredAtOnce,
  })
  await addToPlanCounts(tx, active)
  return { count, last }
}
