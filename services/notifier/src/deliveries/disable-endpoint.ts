import { audit } from '@licensing/changes/audit'
import type { Sql } from '@licensing/database/connect'
import type { DisabledReason } from '@licensing/proto/closed-sets'
import { deleteWaiting, markCleanedUp, markDisabled } from '../endpoints/endpoint-queries.ts'
import { abandonDeliveries } from './delivery-queries.ts'

// The transaction that disables an endpoint abandons this many deliveries. The rest follow in the background; readers see
// all of them as failed at once.
const maxAtOnce = 5_000

/**
 * Disables an endpoint permanently, for the current caller or because its retries are exhausted, and abandons its pending
 * deliveries.
 *
 * @returns false if it was disabled before
 */
export async function disableEndpoint(
  tx: Sql,
  endpointId: string,
  reason: DisabledReason,
  at: Date,
): Promise<boolean> {
  const owner = await markDisabled(tx, endpointId, reason, at)
  if (!owner) return false
  await audit(tx, {
    accountId: owner.account_id,
    applicationId: owner.application_id,
    resourceId: endpointId,
    changes: {
      status: { from: 'enabled', to: 'disabled' },
      disabled_reason: { from: null, to: reason },
    },
    by: reason === 'retries_exhausted' ? byNotifier : undefined,
  })
  await deleteWaiting(tx, endpointId)
  await cleanUpEndpoint(tx, endpointId)
  return true
}

const byNotifier = { actor: 'notifier', operation: 'disableEndpoint', inBackground: true }

/** Abandons pending deliveries of a disabled endpoint. @returns false if some are left */
export async function cleanUpEndpoint(tx: Sql, endpointId: string): Promise<boolean> {
  if ((await abandonDeliveries(tx, endpointId, maxAtOnce)) >= maxAtOnce) return false
  await markCleanedUp(tx, endpointId)
  return true
}
