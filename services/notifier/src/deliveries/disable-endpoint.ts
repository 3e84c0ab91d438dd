import type { Sql } from '@licensing/database/connect'
import type { DisabledReason } from '@licensing/proto/closed-sets'
import { deleteWaiting, markCleanedUp, markDisabled } from '../endpoints/endpoint-queries.ts'
import { abandonDeliveries } from './delivery-queries.ts'

// The transaction that disables an endpoint abandons this many deliveries. The rest follow in the background; readers see
// all of them as failed at once.
const maxAtOnce = 5_000

/**
 * Disables an endpoint permanently and abandons its pending deliveries.
 *
 * @returns false if it was disabled before
 */
export async function disableEndpoint(
  tx: Sql,
  endpointId: string,
  reason: DisabledReason,
  at: Date,
): Promise<boolean> {
  if (!(await markDisabled(tx, endpointId, reason, at))) return false
  await deleteWaiting(tx, endpointId)
  await cleanUpEndpoint(tx, endpointId)
  return true
}

/** Abandons pending deliveries of a disabled endpoint. @returns false if some are left */
export async function cleanUpEndpoint(tx: Sql, endpointId: string): Promise<boolean> {
  if ((await abandonDeliveries(tx, endpointId, maxAtOnce)) >= maxAtOnce) return false
  await markCleanedUp(tx, endpointId)
  return true
}
