import type { Sql } from '@licensing/database/connect'
import type { Claim, NewDelivery } from './delivery-queries.ts'
import { lookAt } from './delivery-queries.ts'

// More at a time than a person asks for.
const mostReplaysDue = 1_000

/** A delivery that is to be sent again; its body is null when it is past retention. */
export type ReplayedDelivery = Omit<NewDelivery, 'body'> & { body: string | null }

export async function readReplayed(
  tx: Sql,
  of: { accountId: string; applicationId: string; id: string; keptSince: Date },
): Promise<ReplayedDelivery | null> {
  const [row] = await tx<ReplayedDelivery[]>`
    select d.id, d.account_id as "accountId", d.application_id as "applicationId",
      d.endpoint_id as "endpointId", d.event_id as "eventId", d.event_type as "eventType",
      d.recorded_at as "recordedAt", d.sequence, d.created_at as "createdAt", e.body,
      e.trace_parent as "traceParent", d.attempt_count as "attemptCount",
      d.scheduled_attempts as "scheduledAttempts", true as "isReplay"
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
  { applicationId, id, endpointId }: ReplayedDelivery,
  now: Date,
  claim: Claim,
): Promise<{ isClaimed: boolean; attemptCount: number }> {
  const [row] = await tx<{ claimId: string | null; attemptCount: number }[]>`
    update deliveries
    set replays_due = least(replays_due + 1, ${mostReplaysDue}::int), due_at = least(due_at, ${now}),
      claim_id = case when ${claim.deliveryIds.has(id)} and claim_id is null then ${claim.id}::uuid else claim_id end,
      claimed_until = case when ${claim.deliveryIds.has(id)} and claim_id is null
        then clock_timestamp() + ${claim.leaseMs}::int * interval '1 millisecond' else claimed_until end
    where application_id = ${applicationId} and id = ${id}
    returning claim_id as "claimId", attempt_count as "attemptCount"`
  if (row?.claimId === null) await lookAt(tx, [endpointId], now)
  return { isClaimed: row?.claimId === claim.id, attemptCount: row?.attemptCount ?? 0 }
}
