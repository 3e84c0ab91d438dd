import type { Sql, Statement } from '@licensing/database/connect'
import { idOf } from '@licensing/database/ids'
import type { DeliveryStatus } from '@licensing/proto/closed-sets'
import { inPending, pendingStatuses } from '../delivery-states.ts'
import { statusIfAbandoned } from './delivery-queries.ts'
import type { Attempt, Delivery } from './delivery.ts'

export interface DeliveryFilter {
  accountId: string
  applicationId: string
  id?: string | undefined
  endpointId?: string | undefined
  eventType?: string | undefined
  status?: DeliveryStatus | undefined
  eventId?: string | undefined
  licenceId?: string | undefined
  /** Lower limit of created_at, inclusive. */
  since?: Date | undefined
  /** Upper limit of created_at, exclusive. */
  until?: Date | undefined
  beforeId?: string | undefined
  limit: number
}

/**
 * Lists deliveries, newest first. Each filter has an index that ends with the id. A delivery that is still pending, and whose
 * endpoint is disabled, is returned as failed. `disabled` lists the endpoints that may have such deliveries.
 */
export async function findDeliveries(
  sql: Sql,
  filter: DeliveryFilter,
  disabled: string[],
): Promise<Delivery[]> {
  if (filter.status === 'failed' && disabled.length > 0) {
    return sql<Delivery[]>`
      (${select(sql, filter, sql`and d.status = 'failed'`)})
      union all
      (${select(sql, filter, sql`and d.status ${sql.unsafe(inPending)} and d.endpoint_id = any(${disabled}::text[])`)})
      order by id desc limit ${filter.limit}`
  }
  if (filter.status === undefined) return select(sql, filter, sql``)
  const status = sql`and d.status = ${filter.status}`
  const isLeft = pendingStatuses.includes(filter.status) && disabled.length > 0
  return select(sql, filter, isLeft ? sql`${status} and d.endpoint_id <> all(${disabled}::text[])` : status)
}

/** Disabled endpoints that may still have pending deliveries. */
export async function findEndpointsToCleanUp(sql: Sql, applicationId: string): Promise<string[]> {
  const rows = await sql<{ id: string }[]>`
    select id from endpoints where application_id = ${applicationId} and is_cleanup_due`
  return rows.map((row) => row.id)
}

/** The body of a delivery's event, exactly as it was sent; null if the payload is past retention. */
export async function findPayload(
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

/** Lists attempts, newest first, from attempt `last` downwards. */
export async function listAttemptRows(
  sql: Sql,
  deliveryId: string,
  last: number,
  limit: number,
): Promise<Attempt[]> {
  return sql<Attempt[]>`
    select attempt, at, response_code, error, duration_ms, response_excerpt
    from attempts where delivery_id = ${deliveryId} and attempt <= ${last} order by attempt desc limit ${limit}`
}

function select(sql: Sql, filter: DeliveryFilter, status: Statement) {
  const { id, endpointId, eventType, eventId, licenceId, beforeId } = filter
  return sql<Delivery[]>`
    select d.id, d.event_id, d.event_type, d.endpoint_id,
      case e.status when 'disabled' then ${statusIfAbandoned(sql)} else d.status end as status,
      d.attempt_count, case when e.status = 'enabled' and not e.paused then d.due_at end as next_attempt_at,
      d.created_at, d.last_response_code, d.licence_id
    from deliveries d join endpoints e on e.id = d.endpoint_id
    where d.application_id = ${filter.applicationId} and d.account_id = ${filter.accountId} ${status}
      ${id === undefined ? sql`` : sql`and d.id = ${id}`}
      ${endpointId === undefined ? sql`` : sql`and d.endpoint_id = ${endpointId}`}
      ${eventType === undefined ? sql`` : sql`and d.event_type = ${eventType}`}
      ${eventId === undefined ? sql`` : sql`and d.event_id = ${eventId}`}
      ${licenceId === undefined ? sql`` : sql`and d.licence_id = ${licenceId}`}
      ${createdIn(sql, filter)}
      ${beforeId === undefined ? sql`` : sql`and d.id < ${beforeId}`}
    order by d.id desc limit ${filter.limit}`
}

// A delivery's id contains a time within this margin of its created_at.
const idMarginMs = 5 * 60_000

/** Filters deliveries `d` by created_at, and by the corresponding range of ids, because the indexes contain the id. */
export function createdIn(sql: Sql, { since, until }: Pick<DeliveryFilter, 'since' | 'until'>): Statement {
  const idAt = (time: Date, marginMs: number) => idOf('dlv', new Date(time.getTime() + marginMs), 0n)
  const from = since && sql`and d.created_at >= ${since} and d.id >= ${idAt(since, -idMarginMs)}`
  const to = until && sql`and d.created_at < ${until} and d.id < ${idAt(until, idMarginMs)}`
  return sql`${from ?? sql``} ${to ?? sql``}`
}
