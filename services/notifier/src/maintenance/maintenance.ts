import type { Database } from '@licensing/database/connect'
import { isDatabaseOutage } from '@licensing/database/problems'
import { transaction } from '@licensing/database/transaction'
import type { Logger } from '@licensing/process/log'
import { startLoop } from '@licensing/process/loop'
import { measureWhenScraped } from '@licensing/process/measures'
import { Gauge } from 'prom-client'
import { deleteOldAlerts } from '../alerts/alert-queries.ts'
import { deleteOldAllowances } from '../alerts/mail-allowance-queries.ts'
import { failuresToWarn, reportDisabling } from '../alerts/endpoint-alerts.ts'
import type { Clock } from '@licensing/process/clock'
import { cleanUpEndpoint } from '../deliveries/disable-endpoint.ts'
import { deleteFormerSecrets } from '../endpoints/endpoint-queries.ts'
import { oldestDueSeconds } from '../dispatch/metrics.ts'
import { dropPartitions, makePartitions, listPartitions } from '../events/event-partitions.ts'
import { keptSince, payloadMs } from '../retention.ts'
import { updateStatistics } from '../statistics/update-statistics.ts'
import {
  deleteEndedDeliveries,
  findOldestDue,
  listEndpointsToCleanUp,
  listEndpointsWithEnded,
  restoreWaitingEndpoints,
} from './maintenance-queries.ts'

const partitionDaysAhead = new Gauge({
  name: 'notifier_event_partitions_ahead_days',
  help: 'Days for which partitions of events exist; if it is under 14, partitions cannot be created: act',
})
const payloadsOverdue = new Gauge({
  name: 'notifier_event_partitions_overdue',
  help: 'Partitions past retention that are not dropped; if it is over 0, they cannot be dropped: act',
})

const dayMs = 86_400_000
const minDaysAhead = 14
const partitionsEveryMs = 10 * 60_000
const cleanUpEveryMs = 1_000
const statisticsEveryMs = 1_000
const warnEveryMs = 60_000
const restoreEveryMs = 5 * 60_000
const deleteOldEveryMs = 60 * 60_000

interface RecordedAttempt {
  isDelivered: boolean
  /** The number of the attempt. */
  attempt: number
}

/** Background work. Every replica starts it. Locks keep two replicas from doing the same work at the same time. */
export function startMaintenance(options: {
  sql: Database
  clock: Clock
  log: Logger
  /** Updates the gauges of this process. */
  measure: () => void
  alertQueued: () => void
  /** Milliseconds from the next attempt of a delivery to its last one, by how many attempts have failed. */
  remainingMs: readonly number[]
  retentionMs: number
  /** If it is absent, deliveries are kept permanently. */
  deliveryRetentionMs: number | undefined
}): { makePartitions(): void; attemptsRecorded(attempts: RecordedAttempt[]): void; stop(): Promise<void> } {
  const { sql, clock, log, measure, alertQueued, remainingMs, retentionMs, deliveryRetentionMs } = options
  const failed = (part: string) => (error: unknown) => {
    if (isDatabaseOutage(error)) log.warn({ err: error, part }, 'maintenance waits for the database')
    else log.error({ err: error, part }, 'maintenance failed')
  }
  const start = (part: string, everyMs: number, work: () => Promise<'idle' | void>) =>
    startLoop({ work, everyMs, failed: failed(part), isOutage: isDatabaseOutage })
  const partitions = start('partitions', partitionsEveryMs, () =>
    keepPartitions(sql, clock.now(), log, retentionMs),
  )
  const statistics = start('statistics', statisticsEveryMs, () => updateStatistics({ sql, alertQueued }))
  const warnings = start('endpoints about to be disabled', warnEveryMs, async () => {
    const schedule = { now: clock.now(), remainingMs }
    // Mails are not woken, so that one mail has this alert and those that follow soon: an account gets few mails an hour.
    await transaction(sql, (tx) => reportDisabling(tx, schedule))
  })
  const endMeasuring = measureWhenScraped(log, 'deliveries', () => measureDue(sql, clock, measure))
  const loops = [
    partitions,
    start('disabled endpoints', cleanUpEveryMs, () => cleanUpEndpoints(sql)),
    statistics,
    warnings,
    start('waiting endpoints', restoreEveryMs, () => restore(sql, log)),
    start('old alerts, mail allowances and secrets', deleteOldEveryMs, () => deleteOld(sql, clock.now())),
    start('old deliveries', deleteOldEveryMs, async () => {
      if (deliveryRetentionMs !== undefined)
        await deleteOldDeliveries(sql, keptSince(clock.now(), deliveryRetentionMs))
    }),
  ]
  return {
    /** Call this when a partition is missing. */
    makePartitions: () => partitions.wake(),
    /** Call this when attempts were recorded. */
    attemptsRecorded: (attempts) => {
      statistics.wakeIn(statisticsEveryMs)
      const mayWarn = attempts.some(({ isDelivered, attempt }) => !isDelivered && attempt >= failuresToWarn)
      if (mayWarn) warnings.wakeIn(statisticsEveryMs)
    },
    async stop() {
      endMeasuring()
      await Promise.all(loops.map((loop) => loop.stop()))
    },
  }
}

/** Creates the partitions of the next weeks and drops partitions past retention. Logs an error if either is late. */
export async function keepPartitions(
  sql: Database,
  now: Date,
  log: Logger,
  retentionMs = payloadMs,
): Promise<void> {
  try {
    const made = await makePartitions(sql, now)
    const dropped = await dropPartitions(sql, now, retentionMs)
    if (made.length + dropped.length > 0) log.info({ made, dropped }, 'partitions of events')
  } finally {
    await checkPartitions(sql, now, log, retentionMs)
  }
}

async function checkPartitions(sql: Database, now: Date, log: Logger, retentionMs: number): Promise<void> {
  const partitions = await listPartitions(sql)
  const aheadDays = ((partitions.at(-1)?.endsAt.getTime() ?? 0) - now.getTime()) / dayMs
  const overdue = partitions.filter(({ endsAt }) => now.getTime() - endsAt.getTime() > retentionMs + dayMs)
  partitionDaysAhead.set(aheadDays)
  payloadsOverdue.set(overdue.length)
  if (aheadDays < minDaysAhead || overdue.length > 0) {
    log.error({ aheadDays, overdue: overdue.length }, 'event partitions are behind schedule')
  }
}

/** Abandons the rest of a disabled endpoint's deliveries, if they were too many for the transaction that disabled it. */
async function cleanUpEndpoints(sql: Database): Promise<'idle' | void> {
  const endpointIds = await listEndpointsToCleanUp(sql)
  if (endpointIds.length === 0) return 'idle'
  for (const endpointId of endpointIds) {
    while (!(await transaction(sql, (tx) => cleanUpEndpoint(tx, endpointId))));
  }
}

async function measureDue(sql: Database, clock: Clock, measure: () => void): Promise<void> {
  measure()
  const now = clock.now()
  const oldest = await findOldestDue(sql, now)
  for (const [attempt, dueAt] of Object.entries(oldest)) {
    oldestDueSeconds.set({ attempt }, dueAt ? Math.max(0, now.getTime() - dueAt.getTime()) / 1000 : 0)
  }
}

export async function deleteOld(sql: Database, now: Date): Promise<void> {
  await deleteFormerSecrets(sql, now)
  await deleteOldAllowances(sql)
  while (!(await deleteOldAlerts(sql)));
}

/** Deletes the deliveries that were created before a time and have ended, in short transactions that wait for no other. */
export async function deleteOldDeliveries(sql: Database, before: Date): Promise<void> {
  for (let endpointIds = ['']; endpointIds.length > 0;) {
    endpointIds = await listEndpointsWithEnded(sql, before, endpointIds.at(-1)!)
    for (const endpointId of endpointIds) {
      for (let last: string | null = ''; last !== null;)
        last = await deleteEndedDeliveries(sql, { endpointId, before, after: last })
    }
  }
}

/** Finds waiting deliveries that no process would look at. There should be none. */
async function restore(sql: Database, log: Logger): Promise<void> {
  const restored = await transaction(sql, (tx) => restoreWaitingEndpoints(tx))
  if (restored > 0)
    log.error({ endpoints: restored }, 'endpoints with waiting deliveries were missing from the schedule')
}
