import type { Database, Sql } from '@licensing/database/connect'
import { transaction } from '@licensing/database/transaction'
import type { Logger } from '@licensing/process/log'
import { exhaustionAlert } from '../alerts/endpoint-alerts.ts'
import { insertAlert } from '../alerts/alert-queries.ts'
import type { Clock } from '../clock.ts'
import { disableEndpoint } from '../endpoints/disable-endpoint.ts'
import { lockEndpoints } from '../endpoints/endpoint-queries.ts'
import { endpointsDisabled } from './metrics.ts'
import type { Advanced, Result } from './attempt-queries.ts'
import { writeResults } from './attempt-queries.ts'

interface Options {
  sql: Database
  clock: Clock
  log: Logger
}

export interface Outcomes {
  advanced: Advanced[]
  /** Endpoints disabled by these results. */
  disabled: string[]
}

/** Writes results; an endpoint with a delivery out of attempts is disabled, and the alert to its vendor queued, in the same commit. */
export async function writeOutcomes(options: Options, results: Result[]): Promise<Outcomes> {
  const last = results.filter(({ isLast }) => isLast)
  if (last.length === 0) return { advanced: await writeResults(options.sql, results), disabled: [] }
  const outcomes = await transaction(options.sql, async (tx) => {
    // Lock order: endpoints, then deliveries.
    const endpointIds = [...new Set(last.map(({ endpointId }) => endpointId))].sort()
    await lockEndpoints(tx, endpointIds)
    const advanced = await writeResults(tx, results)
    return { advanced, disabled: await disableExhausted(tx, options.clock.now(), last, advanced) }
  })
  if (outcomes.disabled.length > 0) {
    endpointsDisabled.inc({ reason: 'retries_exhausted' }, outcomes.disabled.length)
    options.log.warn({ endpoint_ids: outcomes.disabled }, 'endpoints disabled: retries exhausted')
  }
  return outcomes
}

async function disableExhausted(tx: Sql, now: Date, last: Result[], advanced: Advanced[]): Promise<string[]> {
  const failed = new Set(advanced.filter(({ status }) => status === 'failed').map((row) => row.delivery_id))
  const disabled: string[] = []
  for (const result of last) {
    if (!failed.has(result.deliveryId)) continue
    if (!(await disableEndpoint(tx, result.endpointId, 'retries_exhausted', now))) continue
    disabled.push(result.endpointId)
    await insertAlert(tx, await exhaustionAlert(tx, result))
  }
  return disabled
}
