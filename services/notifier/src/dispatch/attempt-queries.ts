import type { Sql } from '@licensing/database/connect'
import type { DeliveryStatus } from '@licensing/proto/closed-sets'
import { plainArray } from '@licensing/database/arrays'
import { bucketOf } from '../statistics/latency-buckets.ts'
import type { EndpointTally } from '../statistics/endpoint-health.ts'
import { tallyEndpoints } from '../statistics/endpoint-health.ts'

/** What became of an attempt. */
export interface Result {
  applicationId: string
  deliveryId: string
  endpointId: string
  claimId: string
  isReplay: boolean
  at: Date
  endedAt: Date
  durationMs: number
  delivered: boolean
  responseCode: number | null
  error: string | null
  responseExcerpt: string | null
  /** When the schedule tries again; null when it does not. */
  retryAt: Date | null
  /** The number that the attempt was sent with. */
  attempt: number
  /** The schedule ends with it. */
  isLast: boolean
  /** From the event's created_at to the end of the attempt. */
  latencyMs: number
}

/** A delivery after its result was written. */
export interface Advanced {
  delivery_id: string
  endpoint_id: string
  attempt_count: number
  status: DeliveryStatus
  /** Set where it waits for another attempt. */
  due_at: Date | null
}

/**
 * Logs attempts and moves their deliveries on, in one statement. The holder of a delivery decides on its schedule; the
 * late result of one whose lease ran out is logged too, and an acknowledgement counts no matter which replica got it.
 * What is counted is tallied with them: attempts of the schedule, of deliveries that came with their event.
 */
export async function writeResults(sql: Sql, results: Result[]): Promise<Advanced[]> {
  const tallies = tallyEndpoints(results)
  const times = (of: (tally: EndpointTally) => Date | null) =>
    plainArray(tallies.map((tally) => of(tally)?.toISOString() ?? null))
  return sql<Advanced[]>`
    with result as materialized (
      select *, replay = 1 as is_replay, acknowledged = 1 as delivered from unnest(
        ${plainArray(results.map((result) => result.applicationId))}::text[],
        ${plainArray(results.map((result) => result.deliveryId))}::text[],
        ${plainArray(results.map((result) => result.claimId))}::uuid[],
        ${plainArray(results.map((result) => Number(result.isReplay)))}::smallint[],
        ${plainArray(results.map((result) => result.at.toISOString()))}::timestamptz[],
        ${plainArray(results.map((result) => result.endedAt.toISOString()))}::timestamptz[],
        ${plainArray(results.map((result) => result.durationMs))}::int[],
        ${plainArray(results.map((result) => Number(result.delivered)))}::smallint[],
        ${plainArray(results.map((result) => result.responseCode))}::smallint[],
        ${results.map((result) => result.error)}::text[],
        ${results.map((result) => result.responseExcerpt)}::text[],
        ${plainArray(results.map((result) => result.retryAt?.toISOString() ?? null))}::timestamptz[],
        ${plainArray(results.map((result) => bucketOf(result.latencyMs)))}::smallint[]
      ) as result (application_id, delivery_id, claim_id, replay, at, ended_at, duration_ms, acknowledged,
        response_code, error, response_excerpt, retry_at, latency_bucket)
    ), advanced as (
      update deliveries d set
        attempt_count = d.attempt_count + 1,
        last_response_code = r.response_code,
        scheduled_attempts = d.scheduled_attempts + (d.claim_id is not distinct from r.claim_id and not r.is_replay)::int,
        replays_due = d.replays_due - (d.claim_id is not distinct from r.claim_id and r.is_replay)::int,
        status = case
          when r.delivered then 'delivered'
          when d.claim_id = r.claim_id and not r.is_replay and r.retry_at is null then 'failed'
          else d.status end,
        delivered_attempt = case
          when r.delivered and not r.is_replay and d.status <> 'delivered' then d.attempt_count + 1
          else d.delivered_attempt end,
        settled_attempt = case
          when d.status = 'pending' and (r.delivered or d.claim_id = r.claim_id and not r.is_replay and r.retry_at is null)
          then d.attempt_count + 1
          else d.settled_attempt end,
        retry_at = case
          when r.delivered then null
          when d.claim_id = r.claim_id and not r.is_replay then r.retry_at
          else d.retry_at end,
        due_at = case
          when d.claim_id = r.claim_id and d.replays_due > r.is_replay::int then r.ended_at
          when d.claim_id = r.claim_id and r.delivered then null
          when d.claim_id = r.claim_id and not r.is_replay then r.retry_at
          when d.claim_id = r.claim_id then d.retry_at
          when r.delivered and d.claim_id is null and d.replays_due = 0 then null
          else d.due_at end,
        claim_id = case when d.claim_id = r.claim_id then null else d.claim_id end,
        claimed_until = case when d.claim_id = r.claim_id then null else d.claimed_until end
      from result r
      where d.application_id = r.application_id and d.id = r.delivery_id
      returning d.id, d.endpoint_id, d.attempt_count, d.status, d.due_at, d.claim_id,
        r.at, r.response_code, r.error, r.duration_ms, r.response_excerpt,
        d.account_id, d.application_id, r.ended_at, r.delivered, r.latency_bucket,
        -- Those that a person asked for are made later than their event is recorded.
        d.created_at = d.recorded_at and not r.is_replay as is_counted,
        coalesce(d.delivered_attempt = d.attempt_count, false) as is_first_success,
        coalesce(d.settled_attempt = d.attempt_count, false) as is_settled
    ), logged as (
      insert into attempts (delivery_id, attempt, at, response_code, error, duration_ms, response_excerpt)
      select id, attempt_count, at, response_code, error, duration_ms, response_excerpt from advanced
    ), waiting as (
      insert into waiting_endpoints (endpoint_id, account_id, look_at)
      select endpoint_id, account_id, min(due_at) from advanced
      where claim_id is null and due_at is not null group by endpoint_id, account_id order by endpoint_id
      on conflict (endpoint_id) do update set look_at = excluded.look_at
      where waiting_endpoints.look_at > excluded.look_at
    ), counted as (
      insert into delivery_tallies (account_id, application_id, hour, delivered, failed_attempts, latency_buckets)
      select account_id, application_id, date_trunc('hour', ended_at, 'UTC'),
        count(*) filter (where is_first_success), count(*) filter (where not delivered),
        array_agg(latency_bucket) filter (where is_first_success)
      from advanced where is_counted and (is_first_success or not delivered) group by 1, 2, 3
    ), answered as (
      insert into endpoint_tallies
        (endpoint_id, pending_change, last_success_at, last_failure_at, failures, first_failure_at, is_gone)
      select endpoint_id, -sum(settled), max(last_success_at), max(last_failure_at), sum(failures), max(first_failure_at),
        max(gone) = 1
      from (
        select *, 0 as settled from unnest(
          ${plainArray(tallies.map((tally) => tally.endpoint_id))}::text[],
          ${times((tally) => tally.last_success_at)}::timestamptz[],
          ${times((tally) => tally.last_failure_at)}::timestamptz[],
          ${plainArray(tallies.map((tally) => tally.failures))}::int[],
          ${times((tally) => tally.first_failure_at)}::timestamptz[],
          ${plainArray(tallies.map((tally) => Number(tally.is_gone)))}::int[]
        ) as tally (endpoint_id, last_success_at, last_failure_at, failures, first_failure_at, gone)
        union all
        select endpoint_id, null, null, 0, null, 0, 1 from advanced where is_settled
      ) change
      group by endpoint_id
    )
    select id as delivery_id, endpoint_id, attempt_count, status,
      case when claim_id is null then due_at end as due_at
    from advanced`
}
