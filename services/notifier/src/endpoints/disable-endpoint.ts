import type { Sql } from '@licensing/database/connect'
import type { DisabledReason } from '@licensing/proto/closed-sets'
import { markDisabled } from './endpoint-queries.ts'

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
  await tx`delete from waiting_endpoints where endpoint_id = ${endpointId}`
  await giveUpPending(tx, endpointId)
  return true
}

/** Marks pending deliveries of a disabled endpoint as failed. @returns whether none is left */
export async function giveUpPending(tx: Sql, endpointId: string): Promise<boolean> {
  // Materialized: where a sender changes a row meanwhile, PostgreSQL looks at the row again, and does not find it in a
  // `union all` that the planner has merged into the join.
  // What is in flight keeps no claim: its result is recorded, and a delivery that was acknowledged is delivered.
  const given = await tx`
    with pending as materialized (
      (select application_id, id from deliveries
        where endpoint_id = ${endpointId} and claim_id is null and due_at is not null
        limit ${markedAtOnce})
      union all
      select application_id, id from deliveries where claimed_until is not null and endpoint_id = ${endpointId}
    )
    update deliveries d
    set status = case when d.status = 'pending' then 'failed' else d.status end,
      retry_at = null, due_at = null, replays_due = 0, claim_id = null, claimed_until = null
    from pending
    where d.application_id = pending.application_id and d.id = pending.id`
  if (given.count >= markedAtOnce) return false
  await tx`update endpoints set has_leftovers = false where id = ${endpointId}`
  return true
}
