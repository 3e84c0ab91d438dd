import type { Statement, Transaction } from '@licensing/database/connect'
import { append } from '@licensing/events/outbox'
import { setTimeout as sleep } from 'node:timers/promises'
import { licenceEvent } from './licence-row.ts'
import { announcements } from './licence.ts'
import type { BulkChange } from './licence.ts'
import { changeLicencesUncounted } from './licence-queries.ts'
import type { ChangedUncounted, Selection } from './licence-queries.ts'

interface Changes {
  change: BulkChange
  cause?: string
  /** The columns of `l` by which the selection is ordered. */
  order: Statement
  /** Selects the next licences after a licence; see `Selection`. */
  select: (after: ChangedUncounted | undefined, limit: number) => Selection
  /** At most this many steps; by default until no licence is left. */
  steps?: number
  /** Licences per step. It limits memory, and how long this process does nothing else. */
  atOnce: number
  /** The total limit of pauses: before each step it pauses for as long as the previous step took. Default: 0. */
  totalPauseMs?: number
}

// A step may have taken long only because it waited for a lock.
const maxPauseMs = 50

/**
 * Changes a set of licences in one transaction, in steps, with their history and events. PostgreSQL runs the next step while
 * the events of a step are made. The caller adds the returned numbers to the plans' counters, as the last step.
 *
 * @returns how many it changed; the last licence if more may follow; the change of the number of active licences by plan
 */
export async function changeMany(
  tx: Transaction,
  { change, cause, order, select, steps = Infinity, atOnce, totalPauseMs = 0 }: Changes,
): Promise<{ count: number; last: ChangedUncounted | undefined; active: Map<string, number> }> {
  const active = new Map<string, number>()
  const { emits } = announcements[change.to]
  // After a failure no statement may be sent: the connection may already belong to another transaction.
  const ended = new AbortController()
  let [pauseLeftMs, tookMs] = [totalPauseMs, 0]
  const changeNext = async (after?: ChangedUncounted) => {
    const pauseMs = Math.min(tookMs, maxPauseMs, pauseLeftMs)
    pauseLeftMs -= pauseMs
    if (pauseMs > 0) await sleep(pauseMs, undefined, ended)
    const startedMs = performance.now()
    const changed = await changeLicencesUncounted(tx, select(after, atOnce), change, { cause, order })
    tookMs = performance.now() - startedMs
    return changed
  }
  const start = (after?: ChangedUncounted) => {
    const step = changeNext(after)
    // If the previous step fails, nothing awaits this one.
    step.catch(() => {})
    return step
  }
  let count = 0
  try {
    let step = start()
    for (let done = 1; ; done += 1) {
      const changed = await step
      const last = changed.length < atOnce ? undefined : changed.at(-1)
      const isLast = !last || done === steps
      if (!isLast) step = start(last)
      await append(tx, ...changed.map((licence) => licenceEvent(emits, licence, licence.plan_id)))
      for (const { plan_id, status, former_status } of changed) {
        const by = Number(status === 'active') - Number(former_status === 'active')
        active.set(plan_id, (active.get(plan_id) ?? 0) + by)
      }
      count += changed.length
      if (isLast) return { count, last, active }
    }
  } finally {
    ended.abort()
  }
}
