import type { Database, Transaction } from '@licensing/database/connect'
import { transaction } from '@licensing/database/transaction'
import { insertAlerts } from '../alerts/alert-queries.ts'
import { failingAlerts } from '../alerts/endpoint-alerts.ts'
import type { Failing } from '../alerts/endpoint-alerts.ts'
import { healthAfter, isAlarming, isGone, unknownHealth } from './endpoint-health.ts'
import type { EndpointHealth } from './endpoint-health.ts'
import {
  addDeliveryCounts,
  findHealth,
  hasChanges,
  takeCountChanges,
  takeHealthChanges,
  tryLockStatistics,
  writeHealth,
} from './statistics-queries.ts'
import type { DeliveryCount, DeliveryCountChange } from './statistics-queries.ts'

const maxChanges = 5_000
const stepsMs = { hour: 3_600_000, day: 86_400_000 }

/**
 * Adds the changes that transactions have written to the counts of applications and the health of endpoints, and makes
 * alerts about endpoints that fail.
 */
export async function updateStatistics(deps: {
  sql: Database
  alertQueued: () => void
}): Promise<'idle' | void> {
  if (!(await hasChanges(deps.sql))) return 'idle'
  for (;;) {
    const round = await transaction(deps.sql, addSomeChanges)
    if (round.alerts > 0) deps.alertQueued()
    if (!round.isMore) return
  }
}

async function addSomeChanges(tx: Transaction): Promise<{ isMore: boolean; alerts: number }> {
  if (!(await tryLockStatistics(tx))) return { isMore: false, alerts: 0 }
  const ofCounts = await takeCountChanges(tx, maxChanges)
  if (ofCounts.length > 0) await addDeliveryCounts(tx, countsOf(ofCounts))
  const ofHealth = await takeHealthChanges(tx, maxChanges)
  const alerts = ofHealth.length > 0 ? await updateHealth(tx, ofHealth) : 0
  return {
    isMore: ofCounts.length === maxChanges || ofHealth.length === maxChanges,
    alerts,
  }
}

/** The counts are sorted, so that two processes lock the rows in the same order. */
function countsOf(changes: DeliveryCountChange[]): DeliveryCount[] {
  const counts = new Map<string, DeliveryCount>()
  for (const change of changes) {
    const { account_id: accountId, application_id: applicationId } = change
    for (const [step, ms] of Object.entries(stepsMs)) {
      const at = new Date(Math.floor(change.hour.getTime() / ms) * ms)
      const key = `${applicationId} ${step} ${at.toISOString()}`
      const count = counts.get(key) ?? {
        accountId,
        applicationId,
        step,
        at,
        delivered: 0,
        failedAttempts: 0,
        latencyCounts: [],
      }
      count.delivered += change.delivered
      count.failedAttempts += change.failed_attempts
      for (const bucket of change.latency_buckets ?? []) addTo(count.latencyCounts, bucket)
      counts.set(key, count)
    }
  }
  return [...counts].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, count]) => count)
}

function addTo(counts: number[], bucket: number): void {
  while (counts.length <= bucket) counts.push(0)
  counts[bucket]! += 1
}

/** @returns how many alerts were made */
async function updateHealth(
  tx: Transaction,
  changes: Awaited<ReturnType<typeof takeHealthChanges>>,
): Promise<number> {
  const inOrder = changes.toSorted((a, b) => (a.id < b.id ? -1 : 1))
  const known = await findHealth(tx, [...new Set(inOrder.map((change) => change.endpoint_id))])
  const health = new Map<string, EndpointHealth>(known.map((row) => [row.endpoint_id, row]))
  const alarming: Failing[] = []
  for (const change of inOrder) {
    const { endpoint_id: endpointId } = change
    const now = healthAfter(health.get(endpointId) ?? unknownHealth(endpointId), change)
    if (isAlarming(now, change)) {
      now.is_alerted = true
      alarming.push({ ...now, failing_since: now.failing_since!, is_gone: isGone(now, change) })
    }
    health.set(endpointId, now)
  }
  await writeHealth(tx, [...health.values()])
  const alerts = await failingAlerts(tx, alarming)
  await insertAlerts(tx, alerts)
  return alerts.length
}
