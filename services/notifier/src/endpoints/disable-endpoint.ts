import type { Sql } from '@licensing/database/connect'
import type { DisabledReason } from '@licensing/proto/closed-sets'
import { failPending } from '../deliveries/delivery-queries.ts'
import { clearLeftovers, deleteWaiting, markDisabled } from './endpoint-queries.ts'

// So many are marked in the transaction that disables; the rest follow, and readers see them as failed at once.
const markedAtOnce = 5_000

/**
 * Disables an endpoint permanently and marks its pending deliveries as failed.
 *
 * @returns false where it was disabled already
 */
export async function disableEndpoint(
  tx: Sql,
  endpointId: string,
  reason: DisabledReason,
  at: Date,
): Promise<boolean> {
  if (!(await markDisabled(tx, endpointId, reason, at))) return false
  await deleteWaiting(tx, endpointId)
  await giveUpPending(tx, endpointId)
  return true
}

/** Marks pending deliveries of a disabled endpoint as failed. @returns whether none is left */
export async function giveUpPending(tx: Sql, endpointId: string): Promise<boolean> {
  if ((await failPending(tx, endpointId, markedAtOnce)) >= markedAtOnce) return false
  await clearLeftovers(tx, endpointId)
  return true
}
