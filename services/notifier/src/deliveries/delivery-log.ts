import type { Sql } from '@licensing/database/connect'
import type { DeliveryStatus } from '@licensing/proto/closed-sets'
import type { PendingQuery, Row } from 'postgres'
import type { Attempt, Delivery } from './delivery.ts'

export interface DeliveryFilter {
  accountId: string
  applicationId: string
  id?: string
  endpointId?: string
  eventType?: string
  status?: DeliveryStatus
  beforeId?: string
  limit: number
}

/**
 * Newest first. Each filter has an index with the id behind it. What still stands as pending for a disabled endpoint
 * reads as failed; `leftovers` are the endpoints that may have such.
 */
export async function readDeliveries(
  sql: Sql,
  filter: DeliveryFilter,
  leftovers: string[],
): Promise<Delivery[]> {
  if (filter.status === 'failed' && leftovers.length > 0) {
    return sql<Delivery[]>`
      (${select(sql, filter, sql`and d.status = 'failed'`)})
      union all
      (${select(sql, filter, sql`and d.status = 'pending' and d.endpoint_id = any(${leftovers}::text[])`)})
      order by id desc limit ${filter.limit}`
  }
  if (filter.status === undefined) return select(sql, filter, sql``)
  const status = sql`and d.status = ${filter.status}`
  const isLeft = filter.status === 'pending' && leftovers.length > 0
  return select(sql, filter, isLeft ? sql`${status} and d.endpoint_id <> all(${leftovers}::text[])` : status)
}

/** Disabled endpoints whose pending deliveries are not all marked as failed yet. */
export async function readLeftovers(sql: Sql, applicationId: string): Promise<string[]> {
  const rows = await sql<{ id: string }[]>`
    select id from endpoints where application_id = ${applicationId} and has_leftovers`
  return rows.map((row) => row.id)
}

/** The body of a delivery's event, exactly as sent; null when its payload is past retention. */
export async function readPayload(
  sql: Sql,
  delivery: { accountId: string; applicationId: string; id: string; keptSince: Date },
): Promise<string | null> {
  const [row] = await sql<{ body: string }[]>`
    select e.body from deliveries d
    cross join lateral (
      select body from events e
      where e.account_id = d.account_id and e.sequence = d.sequence and e.recorded_at = d.recorded_at
      limit 1
    ) e
    where d.application_id = ${delivery.applicationId} and d.id = ${delivery.id}
      and d.account_id = ${delivery.accountId} and d.recorded_at >= ${delivery.keptSince}`
  return row?.body ?? null
}

/** As many as the delivery had when it was read. */
export async function readAttempts(sql: Sql, deliveryId: string, count: number): Promise<Attempt[]> {
  return sql<Attempt[]>`
    select attempt, at, response_code as "responseCode", error, duration_ms as "durationMs",
      response_excerpt as "responseExcerpt"
    from attempts where delivery_id = ${deliveryId} and attempt <= ${count} order by attempt`
}

function select(sql: Sql, filter: DeliveryFilter, status: PendingQuery<Row[]>) {
  const { id, endpointId, eventType, beforeId } = filter
  return sql<Delivery[]>`
    select d.id, d.event_id as "eventId", d.event_type as "eventType", d.endpoint_id as "endpointId",
      case when d.status = 'pending' and e.status = 'disabled' then 'failed' else d.status end as status,
      d.attempt_count as "attemptCount",
      case when e.status = 'enabled' then d.due_at end as "nextAttemptAt",
      d.created_at as "createdAt", d.last_response_code as "lastResponseCode"
    from deliveries d join endpoints e on e.id = d.endpoint_id
    where d.application_id = ${filter.applicationId} and d.account_id = ${filter.accountId} ${status}
      ${id === undefined ? sql`` : sql`and d.id = ${id}`}
      ${endpointId === undefined ? sql`` : sql`and d.endpoint_id = ${endpointId}`}
      ${eventType === undefined ? sql`` : sql`and d.event_type = ${eventType}`}
      ${beforeId === undefined ? sql`` : sql`and d.id < ${beforeId}`}
    order by d.id desc limit ${filter.limit}`
}
