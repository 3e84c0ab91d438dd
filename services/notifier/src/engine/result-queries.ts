import type { Sql } from '@licensing/database/connect'
import type { DeliveryStatus } from '@licensing/proto/closed-sets'
import { plainArray } from '../arrays.ts'

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
}

/** A delivery after its result was written. */
export interface Advanced {
  deliveryId: string
  endpointId: string
  attemptCount: number
  status: DeliveryStatus
  /** Set where it waits for another attempt. */
  dueAt: Date | null
}

/**
 * Logs attempts and moves their deliveries on, in one statement. The holder of a delivery decides on its schedule; the
 * late result of one whose lease ran out is logged too, and an acknowledgement counts no matter which replica got it.
 */
export async function writeResults(sql: Sql, results: Result[]): Promise<Advanced[]> {
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
        ${plainArray(results.map((result) => result.retryAt?.toISOString() ?? null))}::timestamptz[]
      ) as result (application_id, delivery_id, claim_id, replay, at, ended_at, duration_ms, acknowledged,
        response_code, error, response_excerpt, retry_at)
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
        r.at, r.response_code, r.error, r.duration_ms, r.response_excerpt
    ), logged as (
      insert into attempts (delivery_id, attempt, at, response_code, error, duration_ms, response_excerpt)
      select id, attempt_count, at, response_code, error, duration_ms, response_excerpt from advanced
    ), waiting as (
      insert into waiting_endpoints (endpoint_id, look_at)
      select endpoint_id, min(due_at) from advanced
      where claim_id is null and due_at is not null group by endpoint_id order by endpoint_id
      on conflict (endpoint_id) do update set look_at = excluded.look_at
      where waiting_endpoints.look_at > excluded.look_at
    )
    select id as "deliveryId", endpoint_id as "endpointId", attempt_count as "attemptCount", status,
      case when claim_id is null then due_at end as "dueAt"
    from advanced`
}
