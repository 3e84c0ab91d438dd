import type { Sql, Transaction } from '@licensing/database/connect'
import { locks } from '@licensing/database/locks'
import { insertRows } from '@licensing/database/row-queries'
import type { EndpointHealth, EndpointHealthChange } from './endpoint-health.ts'

export interface DeliveryCountChange {
  account_id: string
  application_id: string
  hour: Date
  delivered: number
  failed_attempts: number
  latency_buckets: number[] | null
}

/** Numbers to add to the counts of an application in an hour or day. */
export interface DeliveryCount {
  accountId: string
  applicationId: string
  step: string
  at: Date
  delivered: number
  failedAttempts: number
  latencyCounts: number[]
}

/** Only one transaction at a time updates the statistics. @returns false if another one does */
export async function tryLockStatistics(tx: Transaction): Promise<boolean> {
  const [row] = await tx<{ alone: boolean }[]>`select pg_try_advisory_xact_lock(${locks.statistics}) as alone`
  return row!.alone
}

/** Whether there is something to add up. */
export async function hasChanges(sql: Sql): Promise<boolean> {
  const [row] = await sql<{ found: boolean }[]>`
    select exists (select from delivery_count_changes) or exists (select from endpoint_health_changes) as found`
  return row!.found
}

export async function takeCountChanges(tx: Transaction, limit: number): Promise<DeliveryCountChange[]> {
  return tx<DeliveryCountChange[]>`
    delete from delivery_count_changes where ctid = any(array(select ctid from delivery_count_changes limit ${limit}))
    returning account_id, application_id, hour, delivered, failed_attempts, latency_buckets`
}

export async function addDeliveryCounts(tx: Transaction, counts: DeliveryCount[]): Promise<void> {
  const rows = counts.map(
    ({ accountId, applicationId, step, at, delivered, failedAttempts, latencyCounts }) => ({
      account_id: accountId,
      application_id: applicationId,
      step,
      at,
      delivered,
      failed_attempts: failedAttempts,
      latency_counts: latencyCounts,
    }),
  )
  await insertRows(
    tx,
    'delivery_counts',
    rows,
    tx`on conflict (application_id, step, at) do update set
      delivered = delivery_counts.delivered + excluded.delivered,
      failed_attempts = delivery_counts.failed_attempts + excluded.failed_attempts,
      latency_counts = add_counts(delivery_counts.latency_counts, excluded.latency_counts)`,
  )
}

export async function takeHealthChanges(
  tx: Transaction,
  limit: number,
): Promise<(EndpointHealthChange & { id: bigint; pending_change: number })[]> {
  return tx<(EndpointHealthChange & { id: bigint; pending_change: number })[]>`
    delete from endpoint_health_changes where ctid = any(array(select ctid from endpoint_health_changes limit ${limit}))
    returning id, endpoint_id, pending_change, last_success_at, last_failure_at, failures, first_failure_at, is_gone`
}

export async function findHealth(sql: Sql, endpointIds: string[]): Promise<EndpointHealth[]> {
  return sql<EndpointHealth[]>`
    select endpoint_id, pending::float8 as pending, last_success_at, last_failure_at, failing_since,
      failures::float8 as failures, is_alerted
    from endpoint_health where endpoint_id = any(${endpointIds}::text[])`
}

export async function writeHealth(tx: Transaction, health: EndpointHealth[]): Promise<void> {
  await insertRows(
    tx,
    'endpoint_health',
    health,
    tx`on conflict (endpoint_id) do update set pending = excluded.pending, last_success_at = excluded.last_success_at,
      last_failure_at = excluded.last_failure_at, failing_since = excluded.failing_since,
      failures = excluded.failures, is_alerted = excluded.is_alerted`,
  )
}

export interface DeliveryCounts {
  at: Date
  delivered: bigint
  failed_attempts: bigint
  /** How many delivered events are in each latency bucket, separated by commas: the driver is slow with long arrays. */
  latency_counts: string
}

/** Counts of an application in the hours or days that begin in a period, in order. */
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
