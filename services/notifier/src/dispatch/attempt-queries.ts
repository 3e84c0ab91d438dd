import type { Database, Sql } from '@licensing/database/connect'
import { rowsOf } from '@licensing/database/row-queries'
import { transaction } from '@licensing/database/transaction'
import type { DeliveryStatus } from '@licensing/proto/closed-sets'
import { insertAlerts } from '../alerts/alert-queries.ts'
import { exhaustionAlert } from '../alerts/endpoint-alerts.ts'
import type { Backoff } from '../deliveries/backoff.ts'
import { maxAttempts, waitAfter } from '../deliveries/backoff.ts'
import { nextRetry, nextStatus } from '../deliveries/delivery-queries.ts'
import { inPending, outcomeOf } from '../delivery-states.ts'
import { disableEndpoint } from '../deliveries/disable-endpoint.ts'
import { lockEndpoints } from '../endpoints/endpoint-queries.ts'
import { happenedAt } from '../events/event.ts'
import type { AttemptResult } from '../http-client/sender.ts'
import { healthChangesOf } from '../statistics/endpoint-health.ts'
import { bucketOf } from '../statistics/latency-buckets.ts'
import type { ClaimedDelivery } from './claimed-delivery.ts'

// The consequences of an attempt, in the order in which they happen: its outcome and the time of the next attempt (`finishAttempt`),
// the statement that records it and changes its delivery (`writeAttempts`), and, if it was the last one, the end of its
// endpoint with an alert (`disableExhausted`).

/** An attempt that has ended and is to be recorded. */
export interface FinishedAttempt {
  applicationId: string
  deliveryId: string
  endpointId: string
  /** The claim under which the attempt was sent. Its lease may have ended meanwhile. */
  claimId: string
  isReplay: boolean
  at: Date
  endedAt: Date
  durationMs: number
  isDelivered: boolean
  responseCode: number | null
  error: string | null
  responseExcerpt: string | null
  /** When the retry schedule makes its next attempt; null if it makes none. */
  retryAt: Date | null
  /** The number that was sent in the header Webhook-Attempt. */
  attempt: number
  /** The retry schedule has no further attempt. */
  isLast: boolean
  /** The time from the event's created_at to the end of the attempt. */
  latencyMs: number
}

/** @param at when the attempt started */
export function finishAttempt(
  { delivery, claimId }: ClaimedDelivery,
  result: AttemptResult,
  { at, endedAt, backoff }: { at: Date; endedAt: Date; backoff: Backoff },
): FinishedAttempt {
  const isDelivered = result.outcome === 'delivered'
  const failures = delivery.scheduled_attempts + 1
  const isRetried = !isDelivered && !delivery.is_replay
  const waitMs = isRetried ? waitAfter(backoff, { failures, ...result }, Math.random()) : null
  return {
    applicationId: delivery.application_id,
    deliveryId: delivery.id,
    endpointId: delivery.endpoint_id,
    claimId,
    isReplay: delivery.is_replay,
    at,
    endedAt,
    durationMs: result.durationMs,
    isDelivered,
    responseCode: result.responseCode,
    error: errorText(result),
    responseExcerpt: result.responseExcerpt,
    retryAt: waitMs === null ? null : new Date(endedAt.getTime() + waitMs),
    attempt: delivery.attempt_count + 1,
    isLast: isRetried && failures >= maxAttempts,
    latencyMs: endedAt.getTime() - happenedAt(delivery.body, delivery.created_at).getTime(),
  }
}

/** The error that the delivery log shows. If there was a response, its code already says most of it. */
function errorText({ error, detail }: AttemptResult): string | null {
  if (error === null || error === 'status') return detail
  // The vendor must not find out whether a name does not exist or resolves to an address in the operator's network.
  const shown = error === 'dns' ? 'blocked' : error
  return detail === null ? shown : `${shown}: ${detail}`
}

/** A delivery after its attempt was recorded. */
export interface UpdatedDelivery {
  delivery_id: string
  endpoint_id: string
  attempt_count: number
  status: DeliveryStatus
  /** Set if the delivery waits for another attempt. */
  due_at: Date | null
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
  sql: Database,
  now: Date,
  attempts: FinishedAttempt[],
): Promise<RecordedAttempts> {
  const last = attempts.filter(({ isLast }) => isLast)
  if (last.length === 0) return { updated: await writeAttempts(sql, attempts), disabled: [] }
  return transaction(sql, async (tx) => {
    // Lock order: endpoints, then deliveries.
    const endpointIds = [...new Set(last.map(({ endpointId }) => endpointId))].sort()
    await lockEndpoints(tx, endpointIds)
    const updated = await writeAttempts(tx, attempts)
    return { updated, disabled: await disableExhausted(tx, now, last, updated) }
  })
}

const hasClaim = '(d.claim_id is not distinct from f.claim_id)'
const outcome = `case when ${hasClaim} then f.outcome else f.outcome_without_claim end`
const nextRetryAt = `case ${nextRetry(outcome)} when 'scheduled' then f.retry_at when 'unchanged' then d.retry_at end`
const nextReplaysDue = `d.replays_due - (${hasClaim} and f.is_replay)::int`

/** The part of the statement that has no parameters. */
const updateDeliveries = `
  update deliveries d set
    attempt_count = d.attempt_count + 1,
    last_response_code = f.response_code,
    scheduled_attempts = d.scheduled_attempts + (${hasClaim} and not f.is_replay)::int,
    replays_due = ${nextReplaysDue},
    status = ${nextStatus(outcome)},
    retry_at = ${nextRetryAt},
    due_at = case when ${nextReplaysDue} = 0 then ${nextRetryAt} when ${hasClaim} then f.ended_at else d.due_at end,
    delivered_attempt = case
      when not f.is_replay and f.outcome = 'acknowledged' and d.status <> 'delivered'
      then d.attempt_count + 1 else d.delivered_attempt end,
    final_attempt = case
      when d.status ${inPending} and ${nextStatus(outcome)} not ${inPending}
      then d.attempt_count + 1 else d.final_attempt end,
    claim_id = case when not ${hasClaim} then d.claim_id end,
    claimed_until = case when not ${hasClaim} then d.claimed_until end
  from finished f
  where d.application_id = f.application_id and d.id = f.delivery_id`

const finishedColumns = {
  application_id: 'text',
  delivery_id: 'text',
  claim_id: 'uuid',
  is_replay: 'boolean',
  outcome: 'text',
  outcome_without_claim: 'text',
  at: 'timestamptz',
  ended_at: 'timestamptz',
  duration_ms: 'int',
  response_code: 'smallint',
  error: 'text',
  response_excerpt: 'text',
  retry_at: 'timestamptz',
  latency_bucket: 'smallint',
} as const

function finishedRow(attempt: FinishedAttempt): Record<keyof typeof finishedColumns, unknown> {
  return {
    application_id: attempt.applicationId,
    delivery_id: attempt.deliveryId,
    claim_id: attempt.claimId,
    is_replay: attempt.isReplay,
    outcome: outcomeOf(attempt, true),
    outcome_without_claim: outcomeOf(attempt, false),
    at: attempt.at,
    ended_at: attempt.endedAt,
    duration_ms: attempt.durationMs,
    response_code: attempt.responseCode,
    error: attempt.error,
    response_excerpt: attempt.responseExcerpt,
    retry_at: attempt.retryAt,
    latency_bucket: bucketOf(attempt.latencyMs),
  }
}

const healthColumns = {
  endpoint_id: 'text',
  last_success_at: 'timestamptz',
  last_failure_at: 'timestamptz',
  failures: 'int',
  first_failure_at: 'timestamptz',
  is_gone: 'boolean',
} as const

/**
 * Records attempts and changes their deliveries as `deliveryTransitions` says. It does this in one statement, in this order:
 *
 * 1. `finished`: each attempt comes with two outcomes, because only the statement knows whether the sender still has the claim.
 *    An attempt whose sender has lost the claim is recorded too, and delivers the event if it was acknowledged.
 * 2. `updated`: the delivery's next state. Its claim ends, unless another sender has it.
 * 3. `logged`: the attempt, with the number that the delivery has counted.
 * 4. `waiting`: if the delivery waits for another attempt, its endpoint is searched at that time.
 * 5. `counted`, `answered`: changes of the statistics. They count attempts of the retry schedule, of deliveries that were created
 *    together with their event.
 */
export async function writeAttempts(sql: Sql, attempts: FinishedAttempt[]): Promise<UpdatedDelivery[]> {
  return sql<UpdatedDelivery[]>`
    with finished as materialized (
      select * from ${rowsOf(sql, finishedColumns, attempts.map(finishedRow))} finished
    ), updated as (
      ${sql.unsafe(updateDeliveries)}
      returning d.id, d.endpoint_id, d.attempt_count, d.status, d.due_at, d.claim_id,
        f.at, f.response_code, f.error, f.duration_ms, f.response_excerpt,
        d.account_id, d.application_id, f.ended_at, f.outcome <> 'acknowledged' as has_failed, f.latency_bucket,
        -- Deliveries that a person requested are created after their event was recorded.
        d.created_at = d.recorded_at and not f.is_replay as is_counted,
        coalesce(d.delivered_attempt = d.attempt_count, false) as is_first_success,
        coalesce(d.final_attempt = d.attempt_count, false) as is_final
    ), logged as (
      insert into attempts (delivery_id, attempt, at, response_code, error, duration_ms, response_excerpt)
      select id, attempt_count, at, response_code, error, duration_ms, response_excerpt from updated
    ), waiting as (
      insert into waiting_endpoints (endpoint_id, account_id, next_due_at)
      select endpoint_id, account_id, min(due_at) from updated
      where claim_id is null and due_at is not null group by endpoint_id, account_id order by endpoint_id
      on conflict (endpoint_id) do update set next_due_at = excluded.next_due_at
      where waiting_endpoints.next_due_at > excluded.next_due_at
    ), counted as (
      insert into delivery_count_changes (account_id, application_id, hour, delivered, failed_attempts, latency_buckets)
      select account_id, application_id, date_trunc('hour', ended_at, 'UTC'),
        count(*) filter (where is_first_success), count(*) filter (where has_failed),
        array_agg(latency_bucket) filter (where is_first_success)
      from updated where is_counted and (is_first_success or has_failed) group by 1, 2, 3
    ), answered as (
      insert into endpoint_health_changes
        (endpoint_id, pending_change, last_success_at, last_failure_at, failures, first_failure_at, is_gone)
      select endpoint_id, -sum(final), max(last_success_at), max(last_failure_at), sum(failures), max(first_failure_at),
        bool_or(is_gone)
      from (
        select endpoint_id, last_success_at, last_failure_at, failures, first_failure_at, is_gone, 0 as final
        from ${rowsOf(sql, healthColumns, healthChangesOf(attempts))} change
        union all
        select endpoint_id, null, null, 0, null, false, 1 from updated where is_final
      ) change
      group by endpoint_id
    )
    select id as delivery_id, endpoint_id, attempt_count, status,
      case when claim_id is null then due_at end as due_at
    from updated`
}

/** @returns the endpoints whose delivery has failed with its last attempt */
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
