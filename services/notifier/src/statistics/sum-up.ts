import type { Database, Transaction } from '@licensing/database/connect'
import { transaction } from '@licensing/database/transaction'
import { insertAlert } from '../alerts/alert-queries.ts'
import { failingAlerts } from '../alerts/endpoint-alerts.ts'
import type { Failing } from '../alerts/endpoint-alerts.ts'
import { healthAfter, isAlarming, isGone, unknownHealth } from './endpoint-health.ts'
import type { EndpointHealth } from './endpoint-health.ts'
import type { DeliveryCount, DeliveryTally } from './statistics-queries.ts'
import {
  addDeliveryCounts,
  findHealth,
  recountPending,
  sumsUpAlone,
  takeDeliveryTallies,
  takeEndpointTallies,
  writeHealth,
} from './statistics-queries.ts'

const mostTallies = 5_000
const hoursToDays = { hour: 3_600_000, day: 86_400_000 }

/** Adds what senders tallied to the counts of applications and the health of endpoints, and makes the alerts of it. */
export async function sumUp(deps: { sql: Database; alertQueued: () => void }): Promise<'idle' | void> {
  for (let isFirst = true; ; isFirst = false) {
    const round = await transaction(deps.sql, sumUpSome)
    if (round.alerts > 0) deps.alertQueued()
    if (!round.isMore) return isFirst && round.isEmpty ? 'idle' : undefined
  }
}

/** Corrects what was changed without a tally: by replicas of earlier releases, or with a payload past retention. */
export async function recount(sql: Database): Promise<number> {
  return transaction(sql, async (tx) => ((await sumsUpAlone(tx)) ? recountPending(tx) : 0))
}

async function sumUpSome(tx: Transaction): Promise<{ isMore: boolean; isEmpty: boolean; alerts: number }> {
  if (!(await sumsUpAlone(tx))) return { isMore: false, isEmpty: false, alerts: 0 }
  const deliveries = await takeDeliveryTallies(tx, mostTallies)
  if (deliveries.length > 0) await addDeliveryCounts(tx, countsOf(deliveries))
  const endpoints = await takeEndpointTallies(tx, mostTallies)
  const alerts = endpoints.length > 0 ? await bringHealthUpToDate(tx, endpoints) : 0
  return {
    isMore: deliveries.length === mostTallies || endpoints.length === mostTallies,
    isEmpty: deliveries.length + endpoints.length === 0,
    alerts,
  }
}

/** In one order, so that the rows of two days are never locked crosswise. */
export function countsOf(tallies: DeliveryTally[]): DeliveryCount[] {
  const counts = new Map<string, DeliveryCount>()
  for (const tally of tallies) {
    for (const [step, ms] of Object.entries(hoursToDays)) {
      const { account_id: accountId, application_id: applicationId } = tally
      const at = new Date(Math.floor(tally.hour.getTime() / ms) * ms)
      const key = `${applicationId} ${step} ${at.toISOString()}`
      const count = counts.get(key) ?? emptyCount({ accountId, applicationId, step, at })
      count.delivered += tally.delivered
      count.failedAttempts += tally.failed_attempts
      for (const bucket of tally.latency_buckets ?? []) addTo(count.latencyCounts, bucket)
      counts.set(key, count)
    }
  }
  return [...counts].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, count]) => count)
}

function emptyCount(of: Pick<DeliveryCount, 'accountId' | 'applicationId' | 'step' | 'at'>): DeliveryCount {
  return { ...of, delivered: 0, failedAttempts: 0, latencyCounts: [] }
}

function addTo(counts: number[], bucket: number): void {
  while (counts.length <= bucket) counts.push(0)
  counts[bucket]! += 1
}

/** @returns how many alerts were made */
async function bringHealthUpToDate(
  tx: Transaction,
  tallies: Awaited<ReturnType<typeof takeEndpointTallies>>,
): Promise<number> {
  const inOrder = tallies.toSorted((a, b) => (a.id < b.id ? -1 : 1))
  const known = await findHealth(tx, [...new Set(inOrder.map((tally) => tally.endpoint_id))])
  const health = new Map<string, EndpointHealth>(known.map((row) => [row.endpoint_id, row]))
  const alarming: Failing[] = []
  for (const tally of inOrder) {
    const { endpoint_id: endpointId } = tally
    const now = healthAfter(health.get(endpointId) ?? unknownHealth(endpointId), tally)
    if (isAlarming(now, tally)) {
      now.is_alerted = true
      alarming.push({ ...now, is_gone: isGone(now, tally) })
    }
    health.set(endpointId, now)
  }
  await writeHealth(tx, [...health.values()])
  const alerts = await failingAlerts(tx, alarming)
  for (const alert of alerts) await insertAlert(tx, alert)
  return alerts.length
}
