import type { Database, Sql } from '@licensing/database/connect'
import { transaction } from '@licensing/database/transaction'
import type { Logger } from '@licensing/process/log'
import { insertAlerts } from '../alerts/alert-queries.ts'
import { exhaustionAlert } from '../alerts/endpoint-alerts.ts'
import type { Clock } from '../clock.ts'
import { disableEndpoint } from '../endpoints/disable-endpoint.ts'
import { lockEndpoints } from '../endpoints/endpoint-queries.ts'
import { writeAttempts } from './attempt-queries.ts'
import type { FinishedAttempt, UpdatedDelivery } from './attempt-queries.ts'
import { endpointsDisabled } from './metrics.ts'

interface Options {
  sql: Database
  clock: Clock
  log: Logger
}

export interface RecordedAttempts {
  updated: UpdatedDelivery[]
  /** Endpoints that these attempts disabled. */
  disabled: string[]
}

/**
 * Records attempts. If an attempt was the last of its delivery, the same transaction disables the endpoint and queues the
 * alert to its vendor.
 */
export async function recordAttempts(
  { sql, clock, log }: Options,
  attempts: FinishedAttempt[],
): Promise<RecordedAttempts> {
  const last = attempts.filter(({ isLast }) => isLast)
  if (last.length === 0) return { updated: await writeAttempts(sql, attempts), disabled: [] }
  const recorded = await transaction(sql, async (tx) => {
    // Lock order: endpoints, then deliveries.
    const endpointIds = [...new Set(last.map(({ endpointId }) => endpointId))].sort()
    await lockEndpoints(tx, endpointIds)
    const updated = await writeAttempts(tx, attempts)
    return { updated, disabled: await disableExhausted(tx, clock.now(), last, updated) }
  })
  if (recorded.disabled.length > 0) {
    endpointsDisabled.inc({ reason: 'retries_exhausted' }, recorded.disabled.length)
    log.warn({ endpoint_ids: recorded.disabled }, 'endpoints disabled: retries exhausted')
  }
  return recorded
}

async function disableExhausted(
  tx: Sql,
  now: Date,
  last: FinishedAttempt[],
  updated: UpdatedDelivery[],
): Promise<string[]> {
  const failed = new Set(updated.filter(({ status }) => status === 'failed').map((row) => row.delivery_id))
  const disabled: string[] = []
  for (const attempt of last) {
    if (!failed.has(attempt.deliveryId)) continue
    if (!(await disableEndpoint(tx, attempt.endpointId, 'retries_exhausted', now))) continue
    disabled.push(attempt.endpointId)
    await insertAlerts(tx, [await exhaustionAlert(tx, attempt)])
  }
  return disabled
}
