import type { Database, Sql, Transaction } from '@licensing/database/connect'
import { rowsOf } from '@licensing/database/row-queries'
import { transaction } from '@licensing/database/transaction'
import { stays } from '@licensing/moves/move-queries'
import { abandoned, lowerNextDueAt } from '../deliveries/delivery-queries.ts'
import { findEndpointRows } from '../endpoints/endpoint-queries.ts'
import type { EndpointRow } from '../endpoints/endpoint-queries.ts'
import type { DueDelivery } from '../deliveries/delivery.ts'
import { inPending } from '../delivery-states.ts'

const maxEndpoints = 64
// Limits the cost of a search when the deliveries of many endpoints are due.
const maxSorted = 10_000

/**
 * The condition of waiting deliveries `d` of the row `w` of `waiting_endpoints`. Without its lower limit, a statement reads the
 * index entries of all deliveries that were claimed since the oldest open transaction began, such as that of a backup: after
 * 60,000 deliveries claiming took 74 ms instead of 14 (measured). `restoreWaitingEndpoints` uses the same 5 seconds.
 */
const isWaiting = (sql: Sql) => sql`
  d.endpoint_id = w.endpoint_id and d.claim_id is null and d.due_at >= w.next_due_at - interval '5 seconds'`

/** Which due deliveries may be claimed. */
export interface DueRequest {
  now: Date
  /** Accounts and endpoints that are left out, because this process has no capacity for them. */
  full: { accounts: string[]; endpoints: string[] }
  /** The last account whose endpoints were looked at. */
  afterAccount: string
}

export interface ClaimRequest extends DueRequest {
  /** How many deliveries of an endpoint may be claimed. */
  capacity: (endpoint: EndpointRow) => number
  limit: number
  claimId: string
  leaseMs: number
  /** Payloads of events recorded before this time are past retention. */
  keptSince: Date
}

/** A delivery that was just claimed. Its body is null if the payload is past retention. */
export type Claimed = Omit<DueDelivery, 'body'> & { body: string | null }

/**
 * Endpoints with due deliveries, without locking. Accounts take turns: first one endpoint of each account, beginning with
 * the account after the one that had the last turn, then a second endpoint of each account, and so on.
 */
export async function findDueEndpoints(
  sql: Sql,
  { now, full, afterAccount }: DueRequest,
): Promise<{ id: string; account_id: string }[]> {
  return sql<{ id: string; account_id: string }[]>`
    with due as (
      select endpoint_id, account_id, next_due_at from waiting_endpoints
      where next_due_at <= ${now}
        and account_id <> all(${full.accounts}::text[]) and ${stays(sql, 'account_id')}
        and endpoint_id <> all(${full.endpoints}::text[])
      order by next_due_at limit ${maxSorted}
    )
    select endpoint_id as id, account_id from (
      select *, row_number() over (partition by account_id order by next_due_at) as place from due
    ) numbered
    order by place, account_id <= ${afterAccount}, account_id limit ${maxEndpoints}`
}

/** When the next delivery may be due: a time in the past if one is due now. */
export async function findNextDueAt(sql: Sql): Promise<Date | undefined> {
  const [row] = await sql<{ next_due_at: Date }[]>`
    select next_due_at from waiting_endpoints where ${stays(sql, 'account_id')} order by next_due_at limit 1`
  return row?.next_due_at
}

/**
 * Claims due deliveries, up to `capacity` of each endpoint. The cost does not depend on how many are due: endpoints are
 * found in `waiting_endpoints`, and only the claimed rows of each are read. Several processes may claim at the same time:
 * each skips rows that another has locked.
 *
 * @returns the endpoints that were read, those among them that may be sent to, and the claimed deliveries
 */
export async function claimDue(
  sql: Database,
  { capacity, limit, claimId, leaseMs, keptSince, ...request }: ClaimRequest,
): Promise<{
  dueEndpoints: { id: string; account_id: string }[]
  endpoints: EndpointRow[]
  claimed: Claimed[]
}> {
  const { now } = request
  const dueEndpoints = await findDueEndpoints(sql, request)
  if (dueEndpoints.length === 0) return { dueEndpoints, endpoints: [], claimed: [] }
  const ids = dueEndpoints.map(({ id }) => id)
  const rows = await findEndpointRows(sql, ids)
  const endpoints = rows.filter(({ status, paused }) => status === 'enabled' && !paused)
  // The endpoints share the free capacity equally. If an endpoint does not use all of its share, later endpoints get the rest.
  let left = limit
  const wanted = endpoints.map((endpoint, i) => {
    const quota = Math.min(capacity(endpoint), Math.ceil(left / (endpoints.length - i)))
    left -= quota
    return { id: endpoint.id, quota }
  })
  const claimed = await claimOf(
    sql,
    wanted.filter(({ quota }) => quota > 0),
    { now, claimId, leaseMs, keptSince },
  )
  await transaction(sql, (tx) => updateNextDueAt(tx, ids))
  return { dueEndpoints, endpoints, claimed }
}

/** Claims up to `quota` due deliveries of each of these endpoints. */
export async function claimOf(
  sql: Sql,
  wanted: { id: string; quota: number }[],
  { now, claimId, leaseMs, keptSince }: Pick<ClaimRequest, 'now' | 'claimId' | 'leaseMs' | 'keptSince'>,
): Promise<Claimed[]> {
  if (wanted.length === 0) return []
  // The rows are updated by their ctid. The plan of a join would depend on PostgreSQL's estimate of the number of rows.
  return sql<Claimed[]>`
    with claimed as (
      update deliveries d
      set claim_id = ${claimId}, claimed_until = clock_timestamp() + ${leaseMs}::int * interval '1 millisecond'
      where d.ctid = any(array(
        select due.row from ${rowsOf(sql, { id: 'text', quota: 'int' }, wanted)} wanted
        join endpoints e on e.id = wanted.id and e.status = 'enabled' and not e.paused
          and ${stays(sql, 'e.account_id')}
        join waiting_endpoints w on w.endpoint_id = wanted.id
        cross join lateral (
          select d.ctid as row from deliveries d
          where ${isWaiting(sql)} and d.due_at <= ${now}
          order by d.due_at, d.sequence limit wanted.quota
          for update skip locked
        ) due
      ))
      returning d.*
    )
    select c.id, c.application_id, c.endpoint_id, c.event_id, e.body, e.trace_parent, c.attempt_count,
      c.scheduled_attempts, c.replays_due > 0 as is_replay, c.created_at
    from claimed c left join lateral (
      select body, trace_parent from events e
      where e.account_id = c.account_id and e.sequence = c.sequence and e.recorded_at = c.recorded_at
        and e.recorded_at >= ${keptSince}
      limit 1
    ) e on true
    order by c.due_at, c.sequence`
}

/**
 * Sets next_due_at of endpoints to the due_at of their first waiting delivery. An endpoint that is disabled or paused, or has no
 * waiting delivery, is deleted from the table. A transaction that makes a delivery wait lowers next_due_at afterwards, and waits for
 * this lock to do so. If it has locked the endpoint already, the endpoint is skipped here.
 */
export async function updateNextDueAt(tx: Transaction, endpointIds: string[]): Promise<void> {
  const locked = await tx<{ id: string }[]>`
    select endpoint_id as id from waiting_endpoints
    where endpoint_id = any(${endpointIds}::text[])
    order by endpoint_id for update skip locked`
  const ids = locked.map(({ id }) => id)
  // A separate statement, because it has to see changes that other transactions committed before the rows were locked.
  await tx`
    with head as materialized (
      select w.endpoint_id as id, (
        select d.due_at from deliveries d where ${isWaiting(tx)} order by d.due_at limit 1
      ) as due_at
      from waiting_endpoints w
      join endpoints e on e.id = w.endpoint_id and e.status = 'enabled' and not e.paused
      where w.endpoint_id = any(${ids}::text[])
    ), gone as (
      delete from waiting_endpoints
      where endpoint_id = any(${ids}::text[])
        and endpoint_id not in (select id from head where due_at is not null)
    )
    update waiting_endpoints w set next_due_at = head.due_at from head
    where w.endpoint_id = head.id and head.due_at is not null`
}

/** Abandons claimed deliveries that can never be sent: their payloads are past retention. */
export async function abandonExpired(sql: Sql, claimId: string, deliveryIds: string[]): Promise<void> {
  await sql`
    with expired as (
      select application_id, id, endpoint_id, status from deliveries
      where claimed_until is not null and id = any(${deliveryIds}::text[]) and claim_id = ${claimId}
      for update
    ), no_longer_pending as (
      insert into endpoint_health_changes (endpoint_id, pending_change)
      select endpoint_id, -count(*) from expired where status ${sql.unsafe(inPending)} group by endpoint_id
    )
    update deliveries d set ${abandoned(sql)}
    from expired where d.application_id = expired.application_id and d.id = expired.id`
}

interface FreedDelivery {
  endpoint_id: string
  due_at: Date | null
}

/** Releases claims of deliveries that were not sent: they are due as before. */
export async function releaseClaims(sql: Sql, claims: { id: string; claimId: string }[]): Promise<void> {
  const rows = claims.map(({ id, claimId: claim_id }) => ({ id, claim_id }))
  const freed = await sql<FreedDelivery[]>`
    update deliveries d set claim_id = null, claimed_until = null
    from ${rowsOf(sql, { id: 'text', claim_id: 'uuid' }, rows)} claim
    where d.claimed_until is not null and d.id = claim.id and d.claim_id = claim.claim_id
    returning d.endpoint_id, d.due_at`
  await lowerNextDueAtOfFreed(sql, freed)
}

export async function hasExpiredClaims(sql: Sql): Promise<boolean> {
  const rows = await sql`
    select from deliveries
    where claimed_until < clock_timestamp() and ${stays(sql, 'account_id')} order by claimed_until limit 1`
  return rows.length > 0
}

/** Frees deliveries whose lease has ended, because their process was killed or is stuck. @returns how many */
export async function freeExpiredClaims(sql: Sql, limit: number): Promise<number> {
  const freed = await sql<FreedDelivery[]>`
    update deliveries d set claim_id = null, claimed_until = null
    from (
      select application_id, id from deliveries where claimed_until < clock_timestamp() and ${stays(sql, 'account_id')}
      order by claimed_until limit ${limit} for update skip locked
    ) expired
    where d.application_id = expired.application_id and d.id = expired.id
    returning d.endpoint_id, d.due_at`
  await lowerNextDueAtOfFreed(sql, freed)
  return freed.length
}

/** Lowers next_due_at for freed deliveries that are due. A delivery that was acknowledged meanwhile is not due any more. */
async function lowerNextDueAtOfFreed(sql: Sql, freed: FreedDelivery[]): Promise<void> {
  const due = freed.filter(({ due_at: dueAt }) => dueAt !== null)
  const first = Math.min(...due.map(({ due_at: dueAt }) => dueAt!.getTime()))
  await lowerNextDueAt(sql, [...new Set(due.map((row) => row.endpoint_id))], new Date(first))
}
