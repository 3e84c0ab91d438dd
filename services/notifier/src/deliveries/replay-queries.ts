import type { Sql } from '@licensing/database/connect'
import type { Claim, NewDelivery } from './delivery-queries.ts'
import { lookAt } from './delivery-queries.ts'

// More at a time than a person asks for.
const mostReplaysDue = 1_000

/** A delivery that is to be sent again; its body is null when it is past retention. */
export type ReplayedDelivery = Omit<NewDelivery, 'body'> & { body: string | null }

export async function findReplayed(
  tx: Sql,
  of: { accountId: string; applicationId: string; id: string; keptSince: Date },
): Promise<ReplayedDelivery | null> {
  const [row] = await tx<ReplayedDelivery[]>`
    select d.id, d.account_id, d.application_id, d.endpoint_id, d.event_id, d.event_type, d.recorded_at,
      d.sequence, d.licence_id, d.created_at, e.body, e.trace_parent, d.attempt_count, d.scheduled_attempts,
      true as is_replay
    from deliveries d left join lateral (
      select body, trace_parent from events e
      where e.account_id = d.account_id and e.sequence = d.sequence and e.recorded_at = d.recorded_at
        and e.recorded_at >= ${of.keptSince}
      limit 1
    ) e on true
    where d.application_id = ${of.applicationId} and d.id = ${of.id} and d.account_id = ${of.accountId}`
  return row ?? null
}

/**
 * Has a delivery sent once more, now. Where nobody holds it, it is claimed at once, if the claim is for it; where
 * somebody does, it follows on the attempt in hand. The time of its next retry stands.
 *
 * @returns whether it is claimed, and how many attempts it has had
 */
export async function requestReplay(
  tx: Sql,
  { application_id: applicationId, id, endpoint_id: endpointId }: ReplayedDelivery,
  now: Date,
  claim: Claim,
): Promise<{ isClaimed: boolean; attemptCount: number }> {
  const [row] = await tx<{ claim_id: string | null; attempt_count: number }[]>`
    update deliveries
    set replays_due = least(replays_due + 1, ${mostReplaysDue}::int), due_at = least(due_at, ${now}),
      claim_id = case when ${claim.deliveryIds.has(id)} and claim_id is null then ${claim.id}::uuid else claim_id end,
      claimed_until = case when ${claim.deliveryIds.has(id)} and claim_id is null
        then clock_timestamp() + ${claim.leaseMs}::int * interval '1 millisecond' else claimed_until end
    where application_id = ${applicationId} and id = ${id}
    returning claim_id, attempt_count`
  if (row?.claim_id === null) await lookAt(tx, [endpointId], now)
  return { isClaimed: row?.claim_id === claim.id, attemptCount: row?.attempt_count ?? 0 }
}
