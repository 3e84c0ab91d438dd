import type { Database } from '@licensing/database/connect'
import { isDatabaseOutage } from '@licensing/database/problems'
import { transaction } from '@licensing/database/transaction'
import type { Logger } from '@licensing/process/log'
import { startLoop } from '@licensing/process/loop'
import { Gauge } from 'prom-client'
import { deleteOldAllowances } from '../alerts/mail-allowance-queries.ts'
import type { Clock } from '../clock.ts'
import { giveUpPending } from '../endpoints/disable-endpoint.ts'
import { oldestDueSeconds } from '../dispatch/metrics.ts'
import { dropPartitions, makePartitions, listPartitions } from '../events/event-partitions.ts'
import { payloadDays } from '../events/event.ts'
import { recount, sumUp } from '../statistics/sum-up.ts'
import { listLeftoverEndpoints, findOldestDue, restoreHeads } from './maintenance-queries.ts'

const partitionsMadeFor = new Gauge({
  name: 'notifier_event_partitions_ahead_days',
  help: 'Days for which partitions of events are made; under 14 something keeps them from being made: act',
})
const payloadsOverdue = new Gauge({
  name: 'notifier_event_partitions_overdue',
  help: 'Partitions past retention that are not dropped; over 0 something keeps them from being dropped: act',
})

const dayMs = 86_400_000
const fewestDaysAhead = 14
const partitionsEveryMs = 10 * 60_000
const leftoversEveryMs = 1_000
const gaugesEveryMs = 10_000
const talliesEveryMs = 1_000
// Nothing was found: the pauses grow up to this.
const idleMs = 5_000
const recountEveryMs = 5 * 60_000
const headsEveryMs = 5 * 60_000
const allowancesEveryMs = 60 * 60_000

/** Work that no request waits for. Every replica starts it: locks see to it that two never do the same at once. */
export function startUpkeep(options: {
  sql: Database
  clock: Clock
  log: Logger
  /** Brings gauges of this process up to date. */
  measure: () => void
  alertQueued: () => void
}): { makePartitions(): void; stop(): Promise<void> } {
  const { sql, clock, log, measure, alertQueued } = options
  const failed = (part: string) => (error: unknown) => {
    if (isDatabaseOutage(error)) log.warn({ err: error, part }, 'upkeep waits for the database')
    else log.error({ err: error, part }, 'upkeep failed')
  }
  const start = (part: string, everyMs: number, work: () => Promise<'idle' | void>) =>
    startLoop({ work, everyMs, idleMs, failed: failed(part), isOutage: isDatabaseOutage })
  const partitions = start('partitions', partitionsEveryMs, () => keepPartitions(sql, clock.now(), log))
  const loops = [
    partitions,
    start('leftovers', leftoversEveryMs, () => giveUpLeftovers(sql)),
    start('gauges', gaugesEveryMs, () => watchDue(sql, clock, measure)),
    start('tallies', talliesEveryMs, () => sumUp({ sql, alertQueued })),
    start('recount', recountEveryMs, async () => void (await recount(sql))),
    start('heads', headsEveryMs, () => restore(sql, log)),
    start('allowances', allowancesEveryMs, () => deleteOldAllowances(sql)),
  ]
  return {
    /** Out of turn: one is missing. */
    makePartitions: () => partitions.wake(),
    stop: async () => void (await Promise.all(loops.map((loop) => loop.stop()))),
  }
}

/** Makes partitions ahead and drops those past retention; raises an alarm when either falls behind. */
export async function keepPartitions(sql: Database, now: Date, log: Logger): Promise<void> {
  try {
    const made = await makePartitions(sql, now)
    const dropped = await dropPartitions(sql, now)
    if (made.length + dropped.length > 0) log.info({ made, dropped }, 'partitions of events')
  } finally {
    await watchPartitions(sql, now, log)
  }
}

async function watchPartitions(sql: Database, now: Date, log: Logger): Promise<void> {
  const partitions = await listPartitions(sql)
  const aheadDays = ((partitions.at(-1)?.endsAt.getTime() ?? 0) - now.getTime()) / dayMs
  const overdue = partitions.filter(
    ({ endsAt }) => now.getTime() - endsAt.getTime() > (payloadDays + 1) * dayMs,
  )
  partitionsMadeFor.set(aheadDays)
  payloadsOverdue.set(overdue.length)
  if (aheadDays < fewestDaysAhead || overdue.length > 0) {
    log.error({ aheadDays, overdue: overdue.length }, 'event partitions are behind schedule')
  }
}

/** Marks what a disabled endpoint had pending, where that was too much for the moment it was disabled. */
async function giveUpLeftovers(sql: Database): Promise<'idle' | void> {
  const endpointIds = await listLeftoverEndpoints(sql)
  if (endpointIds.length === 0) return 'idle'
  for (const endpointId of endpointIds) {
    while (!(await transaction(sql, (tx) => giveUpPending(tx, endpointId))));
  }
}

async function watchDue(sql: Database, clock: Clock, measure: () => void): Promise<void> {
  measure()
  const now = clock.now()
  const oldest = await findOldestDue(sql, now)
  for (const [attempt, dueAt] of Object.entries(oldest)) {
    oldestDueSeconds.set({ attempt }, dueAt ? Math.max(0, now.getTime() - dueAt.getTime()) / 1000 : 0)
  }
}

/** A safety net: waiting deliveries of an endpoint that nobody would look at. None are ever expected. */
async function restore(sql: Database, log: Logger): Promise<void> {
  const restored = await transaction(sql, (tx) => restoreHeads(tx))
  if (restored > 0)
    log.error({ endpoints: restored }, 'endpoints with waiting deliveries were missing from the schedule')
}
