import { plainArray } from '@licensing/database/arrays'
import type { Sql, Transaction } from '@licensing/database/connect'
import { locks } from '@licensing/database/locks'
import type { EndpointHealth, EndpointTally } from './endpoint-health.ts'

export interface DeliveryTally {
  account_id: string
  application_id: string
  hour: Date
  delivered: number
  failed_attempts: number
  latency_buckets: number[] | null
}

/** What is added to the counts of one application and step. */
export interface DeliveryCount {
  accountId: string
  applicationId: string
  step: string
  at: Date
  delivered: number
  failedAttempts: number
  latencyCounts: number[]
}

/** Whether this transaction is the only one that sums up. */
export async function sumsUpAlone(tx: Transaction): Promise<boolean> {
  const [row] = await tx<{ alone: boolean }[]>`select pg_try_advisory_xact_lock(${locks.tallies}) as alone`
  return row!.alone
}

export async function takeDeliveryTallies(tx: Transaction, most: number): Promise<DeliveryTally[]> {
  return tx<DeliveryTally[]>`
    delete from delivery_tallies where ctid = any(array(select ctid from delivery_tallies limit ${most}))
    returning account_id, application_id, hour, delivered, failed_attempts, latency_buckets`
}

export async function addDeliveryCounts(tx: Transaction, counts: DeliveryCount[]): Promise<void> {
  await tx`
    insert into delivery_counts as known
      (account_id, application_id, step, at, delivered, failed_attempts, latency_counts)
    select account_id, application_id, step, at, delivered, failed_attempts, latency_counts::bigint[] from unnest(
      ${plainArray(counts.map((count) => count.accountId))}::text[],
      ${plainArray(counts.map((count) => count.applicationId))}::text[],
      ${plainArray(counts.map((count) => count.step))}::text[],
      ${plainArray(counts.map((count) => count.at.toISOString()))}::timestamptz[],
      ${plainArray(counts.map((count) => count.delivered))}::bigint[],
      ${plainArray(counts.map((count) => count.failedAttempts))}::bigint[],
      ${counts.map((count) => plainArray(count.latencyCounts))}::text[]
    ) as count (account_id, application_id, step, at, delivered, failed_attempts, latency_counts)
    on conflict (application_id, step, at) do update set
      delivered = known.delivered + excluded.delivered,
      failed_attempts = known.failed_attempts + excluded.failed_attempts,
      latency_counts = add_counts(known.latency_counts, excluded.latency_counts)`
}

export async function takeEndpointTallies(
  tx: Transaction,
  most: number,
): Promise<(EndpointTally & { id: bigint; pending_change: number })[]> {
  return tx<(EndpointTally & { id: bigint; pending_change: number })[]>`
    delete from endpoint_tallies where ctid = any(array(select ctid from endpoint_tallies limit ${most}))
    returning id, endpoint_id, pending_change, last_success_at, last_failure_at, failures, first_failure_at, is_gone`
}

export async function findHealth(sql: Sql, endpointIds: string[]): Promise<EndpointHealth[]> {
  return sql<EndpointHealth[]>`
    select endpoint_id, pending::float8 as pending, last_success_at, last_failure_at, failing_since,
      failures::float8 as failures, is_alerted
    from endpoint_health where endpoint_id = any(${plainArray(endpointIds)}::text[])`
}

/**
 * Counts the pending deliveries of every endpoint where the sum of tallies is not right. For a transaction that sums up
 * alone: a tally is seen with the deliveries that it is of, or not at all.
 *
 * @returns how many endpoints it corrected
 */
export async function recountPending(tx: Transaction): Promise<number> {
  const corrected = await tx`
    insert into endpoint_health as known (endpoint_id, pending)
    select e.id, coalesce(counted.pending, 0) - coalesce(tallied.change, 0)
    from endpoints e
    left join (
      select endpoint_id, count(*) as pending from (
        select endpoint_id from deliveries where claim_id is null and due_at is not null and status = 'pending'
        union all
        select endpoint_id from deliveries where claimed_until is not null and status = 'pending'
      ) delivery
      group by endpoint_id
    ) counted on counted.endpoint_id = e.id
    left join (
      select endpoint_id, sum(pending_change) as change from endpoint_tallies group by endpoint_id
    ) tallied on tallied.endpoint_id = e.id
    left join endpoint_health h on h.endpoint_id = e.id
    where coalesce(counted.pending, 0) - coalesce(tallied.change, 0) <> coalesce(h.pending, 0)
    on conflict (endpoint_id) do update set pending = excluded.pending`
  return corrected.count
}

export async function writeHealth(tx: Transaction, health: EndpointHealth[]): Promise<void> {
  const times = (of: (row: EndpointHealth) => Date | null) =>
    plainArray(health.map((row) => of(row)?.toISOString() ?? null))
  await tx`
    insert into endpoint_health
      (endpoint_id, pending, last_success_at, last_failure_at, failing_since, failures, is_alerted)
    select endpoint_id, pending, last_success_at, last_failure_at, failing_since, failures, alerted = 1 from unnest(
      ${plainArray(health.map((row) => row.endpoint_id))}::text[],
      ${plainArray(health.map((row) => row.pending))}::bigint[],
      ${times((row) => row.last_success_at)}::timestamptz[],
      ${times((row) => row.last_failure_at)}::timestamptz[],
      ${times((row) => row.failing_since)}::timestamptz[],
      ${plainArray(health.map((row) => row.failures))}::bigint[],
      ${plainArray(health.map((row) => Number(row.is_alerted)))}::int[]
    ) as row (endpoint_id, pending, last_success_at, last_failure_at, failing_since, failures, alerted)
    on conflict (endpoint_id) do update set pending = excluded.pending, last_success_at = excluded.last_success_at,
      last_failure_at = excluded.last_failure_at, failing_since = excluded.failing_since,
      failures = excluded.failures, is_alerted = excluded.is_alerted`
}

export interface DeliveryCounts {
  at: Date
  delivered: bigint
  failed_attempts: bigint
  /** How many of the delivered are in each latency bucket, between commas: the driver is slow with long arrays. */
  latency_counts: string
}

/** Counts of the steps of an application that begin in a time, in order. */
export async function listDeliveryCounts(
  sql: Sql,
  of: { accountId: string; applicationId: string; step: string; from: Date; to: Date },
): Promise<DeliveryCounts[]> {
  return sql<DeliveryCounts[]>`
    select at, delivered, failed_attempts, array_to_string(latency_counts, ',') as latency_counts
    from delivery_counts
    where application_id = ${of.applicationId} and step = ${of.step} and at >= ${of.from} and at < ${of.to}
      and account_id = ${of.accountId}
    order by at`
}
