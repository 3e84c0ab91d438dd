import type { Transaction } from '@licensing/database/connect'
import { append } from '@licensing/events/outbox'
import { setTimeout as sleep } from 'node:timers/promises'
import { licenceEvent } from './licence-event.ts'
import type { Move } from './licence.ts'
import { changeLicencesUncounted } from './transition-queries.ts'
import type { By, ChangedUncounted, Selection } from './transition-queries.ts'

interface Changes {
  move: Move
  by: By
  /** Columns of `l` that the selection goes by. */
  order: Selection
  /** The next licences after one, as `changeLicences` wants them. */
  select: (after: ChangedUncounted | undefined, limit: number) => Selection
  /** The most of them; all when absent. */
  steps?: number
  /** Licences of a step: bounds memory, and how long this process answers no other request. */
  atOnce: number
  /** Most milliseconds that it pauses in all, before each step for as long as the one before took; 0 when absent. */
  mostPauseMs?: number
}

// A step that waited for a lock took longer than it worked.
const longestPauseMs = 50

/**
 * Changes a set of licences in one transaction and in steps, with their history and events. PostgreSQL is at the next
 * step while the events of one are made. The plans' counters are the caller's, and come last.
 *
 * @returns how many it changed; the last of them where more may follow; by how much each plan's active licences changed
 */
export async function changeMany(
  tx: Transaction,
  { move, by, order, select, steps = Infinity, atOnce, mostPauseMs = 0 }: Changes,
): Promise<{ count: number; last: ChangedUncounted | undefined; active: Map<string, number> }> {
  const active = new Map<string, number>()
  // After a failure nothing more may be sent: the connection is another transaction's then.
  const ended = new AbortController()
  let [pauseLeftMs, tookMs] = [mostPauseMs, 0]
  const changeNext = async (after?: ChangedUncounted) => {
    const pauseMs = Math.min(tookMs, longestPauseMs, pauseLeftMs)
    pauseLeftMs -= pauseMs
    if (pauseMs > 0) await sleep(pauseMs, undefined, ended)
    const startedMs = performance.now()
    const changed = await changeLicencesUncounted(tx, select(after, atOnce), move, by, order)
    tookMs = performance.now() - startedMs
    return changed
  }
  const start = (after?: ChangedUncounted) => {
    const step = changeNext(after)
    // Where the step before fails, nobody waits for this one.
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
      await append(tx, ...changed.map((licence) => licenceEvent(move.emits, licence, licence.plan_id)))
      for (const { plan_id, status, former_status } of changed) {
        const change = Number(status === 'active') - Number(former_status === 'active')
        active.set(plan_id, (active.get(plan_id) ?? 0) + change)
      }
      count += changed.length
      if (isLast) return { count, last, active }
    }
  } finally {
    ended.abort()
  }
}
