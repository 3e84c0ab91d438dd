import type { Database, Sql, Transaction } from '@licensing/database/connect'
import { transaction } from '@licensing/database/transaction'
import { plainArray } from '@licensing/database/arrays'
import { lookAt } from '../deliveries/delivery-queries.ts'
import { findEndpointRows } from '../endpoints/endpoint-queries.ts'
import type { EndpointRow } from '../endpoints/endpoint-queries.ts'
import type { Sendable } from './claimed-delivery.ts'

const mostEndpoints = 64
// Bounds the cost of a look when the deliveries of many endpoints are due.
const mostSorted = 10_000

/** The due deliveries from which a claim chooses. */
export interface DueRequest {
  now: Date
  /** Accounts and endpoints for which this process has no capacity. */
  full: { accounts: string[]; endpoints: string[] }
  /** The account that had the last turn. */
  afterAccount: string
}

export interface ClaimRequest extends DueRequest {
  /** How many of an endpoint are wanted. */
  capacity: (endpoint: EndpointRow) => number
  most: number
  claimId: string
  leaseMs: number
}

/** What was claimed; a body that is null is past retention. */
export type Claimed = Omit<Sendable, 'body'> & { body: string | null }

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
      select endpoint_id, account_id, look_at from waiting_endpoints
      where look_at <= ${now}
        and account_id <> all(${plainArray(full.accounts)}::text[])
        and endpoint_id <> all(${plainArray(full.endpoints)}::text[])
      order by look_at limit ${mostSorted}
    )
    select endpoint_id as id, account_id from (
      select *, row_number() over (partition by account_id order by look_at) as turn from due
    ) numbered
    order by turn, account_id <= ${afterAccount}, account_id limit ${mostEndpoints}`
}

/** When the next endpoint has something due; a time that has passed if one has now. */
export async function findNextLook(sql: Sql): Promise<Date | undefined> {
  const [row] = await sql<{ look_at: Date }[]>`
    select look_at from waiting_endpoints order by look_at limit 1`
  return row?.look_at
}

/**
 * Leases what is due, a bounded number of each endpoint. It costs the same however much of an endpoint is due: the
 * endpoints are found by their heads, and of each only as many rows are read as are taken. Others may do the same at
 * the same time: rows that one of them is taking are skipped.
 *
 * @returns the endpoints that had their turn, those of them that are enabled, and what was claimed
 */
export async function claimDue(
  sql: Database,
  { capacity, most, claimId, leaseMs, ...request }: ClaimRequest,
): Promise<{ looked: { id: string; account_id: string }[]; endpoints: EndpointRow[]; claimed: Claimed[] }> {
  const { now } = request
  const looked = await findDueEndpoints(sql, request)
  if (looked.length === 0) return { looked, endpoints: [], claimed: [] }
  const ids = looked.map(({ id }) => id)
  const endpoints = (await findEndpointRows(sql, ids)).filter(({ status }) => status === 'enabled')
  // Where one endpoint alone has something due it gets all free places.
  let left = most
  const wanted = endpoints.map((endpoint, i) => {
    const quota = Math.min(capacity(endpoint), Math.ceil(left / (endpoints.length - i)))
    left -= quota
    return { id: endpoint.id, quota }
  })
  const claimed = await claimOf(
    sql,
    wanted.filter(({ quota }) => quota > 0),
    { now, claimId, leaseMs },
  )
  await transaction(sql, (tx) => setHeads(tx, ids))
  return { looked, endpoints, claimed }
}

/** Leases so many due deliveries of each of these endpoints at most. */
export async function claimOf(
  sql: Sql,
  wanted: { id: string; quota: number }[],
  { now, claimId, leaseMs }: Pick<ClaimRequest, 'now' | 'claimId' | 'leaseMs'>,
): Promise<Claimed[]> {
  if (wanted.length === 0) return []
  // By ctid, so that the rows are fetched one by one: a join's plan would be for a guess at how many are taken.
  return sql<Claimed[]>`
    with claimed as (
      update deliveries d
      set claim_id = ${claimId}, claimed_until = clock_timestamp() + ${leaseMs}::int * interval '1 millisecond'
      where d.ctid = any(array(
        select due.row from unnest(
          ${plainArray(wanted.map(({ id }) => id))}::text[],
          ${plainArray(wanted.map(({ quota }) => quota))}::int[]
        ) as wanted (endpoint_id, quota)
        join endpoints e on e.id = wanted.endpoint_id and e.status = 'enabled'
        cross join lateral (
          select ctid as row from deliveries
          where endpoint_id = wanted.endpoint_id and claim_id is null and due_at <= ${now}
          order by due_at limit wanted.quota
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
      limit 1
    ) e on true
    order by c.due_at`
}

/**
 * Points endpoints at the first of what still waits; those with nothing left, or disabled, go. Code that makes
 * a delivery wait lowers look_at afterwards, and waits for this lock to do so; an endpoint locked for that is skipped.
 */
export async function setHeads(tx: Transaction, endpointIds: string[]): Promise<void> {
  const locked = await tx<{ id: string }[]>`
    select endpoint_id as id from waiting_endpoints
    where endpoint_id = any(${plainArray(endpointIds)}::text[])
    order by endpoint_id for update skip locked`
  const ids = plainArray(locked.map(({ id }) => id))
  // A statement of its own: it has to see what was committed before the rows were locked.
  await tx`
    with head as materialized (
      select endpoint.id, (
        select due_at from deliveries d
        where d.endpoint_id = endpoint.id and d.claim_id is null and d.due_at is not null
        order by due_at limit 1
      ) as due_at
      from endpoints endpoint where endpoint.id = any(${ids}::text[]) and endpoint.status = 'enabled'
    ), gone as (
      delete from waiting_endpoints
      where endpoint_id = any(${ids}::text[])
        and endpoint_id not in (select id from head where due_at is not null)
    )
    update waiting_endpoints w set look_at = head.due_at from head
    where w.endpoint_id = head.id and head.due_at is not null`
}

/** What is due and can never be sent, since its payload is past retention, has failed. */
export async function giveUpUnsendable(sql: Sql, claimId: string, deliveryIds: string[]): Promise<void> {
  await sql`
    update deliveries
    set status = case when status = 'pending' then 'failed' else status end,
      retry_at = null, due_at = null, replays_due = 0, claim_id = null, claimed_until = null
    where claimed_until is not null and id = any(${deliveryIds}::text[]) and claim_id = ${claimId}`
}

/** Gives deliveries back that are held and were not sent: they are due as before. */
export async function releaseClaims(sql: Sql, works: { id: string; claimId: string }[]): Promise<void> {
  const freed = await sql<{ endpoint_id: string; due_at: Date }[]>`
    update deliveries d set claim_id = null, claimed_until = null
    from unnest(${works.map(({ id }) => id)}::text[], ${works.map(({ claimId }) => claimId)}::uuid[]) as held (id, claim_id)
    where d.claimed_until is not null and d.id = held.id and d.claim_id = held.claim_id
    returning d.endpoint_id, d.due_at`
  await lookAtFreed(sql, freed)
}

/** Frees what senders hold that are gone or stuck: their leases are over. @returns how many */
export async function freeExpiredClaims(sql: Sql, most: number): Promise<number> {
  const freed = await sql<{ endpoint_id: string; due_at: Date }[]>`
    update deliveries d set claim_id = null, claimed_until = null
    from (
      select application_id, id from deliveries where claimed_until < clock_timestamp()
      order by claimed_until limit ${most} for update skip locked
    ) expired
    where d.application_id = expired.application_id and d.id = expired.id
    returning d.endpoint_id, d.due_at`
  await lookAtFreed(sql, freed)
  return freed.length
}

async function lookAtFreed(sql: Sql, freed: { endpoint_id: string; due_at: Date }[]): Promise<void> {
  const first = freed.reduce((least, row) => Math.min(least, row.due_at.getTime()), Infinity)
  if (freed.length === 0) return
  await lookAt(sql, [...new Set(freed.map((row) => row.endpoint_id))], new Date(first))
}
