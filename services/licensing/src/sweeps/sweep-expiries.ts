import type { Database, Transaction } from '@licensing/database/connect'
import { isDatabaseOutage } from '@licensing/database/problems'
import type { Outbox } from '@licensing/events/outbox'
import type { Logger } from '@licensing/process/log'
import { startLoop } from '@licensing/process/loop'
import type { Loop } from '@licensing/process/loop'
import { Counter } from 'prom-client'
import { changeMany } from '../lifecycle/change-many.ts'
import { lifecycle } from '../lifecycle/licence.ts'
import { addToCounts } from '../lifecycle/licence-queries.ts'
import { takeOver } from '../purchases/take-over.ts'
import { dueOrder, findTakenOver, licencesPast } from './sweep-queries.ts'
import type { Due } from './sweep-queries.ts'

interface Databases {
  sql: Database
  outbox: Outbox
}

interface SweepOptions extends Databases {
  intervalMs: number
  log: Logger
}

// One works while the other commits.
const sweepers = 2
// Steps per transaction. A verb on one of its licences may wait for all of them, up to 100 ms each.
const stepsAtOnce = 2
const expiredAtOnce = 500
const takenOverAtOnce = 100

const expired = new Counter({ name: 'licences_expired_total', help: 'Licences that the sweep has expired' })

/**
 * Expires licences whose end has passed, every `intervalMs` milliseconds and until none is left, so that it catches up
 * after a downtime. Replicas share the work: each skips licences that another one has locked.
 */
export function startSweep({ sql, outbox, intervalMs, log }: SweepOptions): Loop {
  return startLoop({
    work: async (signal) => void (await sweepExpiries({ sql, outbox }, signal)),
    everyMs: intervalMs,
    failed: (error) => log.warn({ err: error }, 'sweep failed, trying again'),
    isOutage: isDatabaseOutage,
  })
}

/** One sweep. @returns how many licences it expired */
export async function sweepExpiries({ sql, outbox }: Databases, signal?: AbortSignal): Promise<number> {
  const totals = await Promise.all(Array.from({ length: sweepers }, () => expireInTurn(outbox, signal)))
  await takeOverInTurn(sql, outbox, signal)
  return totals.reduce((sum, total) => sum + total, 0)
}

/** If the purchase of a licence has ended and another one stands, the licence rests on that one. */
async function takeOverInTurn(sql: Database, outbox: Outbox, signal: AbortSignal | undefined): Promise<void> {
  let last: Due | undefined
  do {
    const due: Due[] = await findTakenOver(sql, last, takenOverAtOnce)
    if (due.length > 0) {
      await takeOver(
        outbox,
        due.map(({ id }) => id),
        { busy: 'skip' },
      )
    }
    last = due.length < takenOverAtOnce ? undefined : due.at(-1)
  } while (last && !signal?.aborted)
}

async function expireInTurn(outbox: Outbox, signal: AbortSignal | undefined): Promise<number> {
  let total = 0
  let last: Due | undefined
  do {
    const after = last
    const past = await outbox.transaction((tx) => expirePast(tx, after))
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
    move: lifecycle.expiryPassed[0],
    by: { actor: 'sweep' },
    order: dueOrder(tx),
    select: (after, limit) => licencesPast(tx, after ?? start, limit),
    steps: stepsAtOnce,
    atOnce: expiredAtOnce,
  })
  await addToCounts(tx, active)
  return { count, last }
}
