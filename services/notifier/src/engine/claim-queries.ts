import type { Sql, Transaction } from '@licensing/database/connect'
import { lookAt } from '../deliveries/delivery-queries.ts'
import { readEndpointRows } from '../endpoints/endpoint-queries.ts'
import type { EndpointRow } from '../endpoints/endpoint-queries.ts'
import type { Sendable } from './work.ts'

const mostEndpoints = 64

export interface ClaimRequest {
  now: Date
  /** Endpoints of which nothing is wanted. */
  except: string[]
  /** How many of an endpoint are wanted. */
  room: (endpoint: EndpointRow) => number
  most: number
  claimId: string
  leaseMs: number
}

/** What was claimed; a body that is null is past retention. */
export type Claimed = Omit<Sendable, 'body'> & { body: string | null }

/** Whether any endpoint has something due, without locking: most looks end here. */
export async function isAnyDue(sql: Sql, now: Date, except: string[]): Promise<boolean> {
  const rows = await sql`
    select 1 from waiting_endpoints
    where look_at <= ${now} and endpoint_id <> all(${except}::text[]) limit 1`
  return rows.length > 0
}

/**
 * Leases what is due, a bounded number of each endpoint. It costs the same however much of an endpoint is due: the
 * endpoints are found by their heads, and of each only as many rows are read as are taken.
 */
export async function claimDue(
  tx: Transaction,
  { now, except, room, most, claimId, leaseMs }: ClaimRequest,
): Promise<{ endpoints: EndpointRow[]; claimed: Claimed[] }> {
  const looked = await tx<{ id: string }[]>`
    select endpoint_id as id from waiting_endpoints
    where look_at <= ${now} and endpoint_id <> all(${except}::text[])
    order by look_at limit ${mostEndpoints} for update skip locked`
  if (looked.length === 0) return { endpoints: [], claimed: [] }
  const rows = await readEndpointRows(
    tx,
    looked.map(({ id }) => id),
  )
  const endpoints = rows.filter(({ status }) => status === 'enabled')
  // Where one endpoint alone has something due it gets all that there is room for.
  let left = most
  const quotas = endpoints.map((endpoint, i) => {
    const quota = Math.min(room(endpoint), Math.ceil(left / (endpoints.length - i)))
    left -= quota
    return quota
  })
  // By ctid, so that the rows are fetched one by one: a join's plan would be for a guess at how many are taken.
  const claimed = await tx<Claimed[]>`
    with claimed as (
      update deliveries d
      set claim_id = ${claimId}, claimed_until = clock_timestamp() + ${leaseMs}::int * interval '1 millisecond'
      where d.ctid = any(array(
        select due.row from unnest(${endpoints.map(({ id }) => id)}::text[], ${quotas}::int[])
          as wanted (endpoint_id, quota)
        cross join lateral (
          select ctid as row from deliveries
          where endpoint_id = wanted.endpoint_id and claim_id is null and due_at <= ${now}
          order by due_at limit wanted.quota
          for update skip locked
        ) due
      ))
      returning d.*
    )
    select c.id, c.application_id as "applicationId", c.endpoint_id as "endpointId", c.event_id as "eventId",
      e.body, e.trace_parent as "traceParent", c.attempt_count as "attemptCount",
      c.scheduled_attempts as "scheduledAttempts", c.replays_due > 0 as "isReplay", c.created_at as "createdAt"
    from claimed c left join lateral (
      select body, trace_parent from events e
      where e.account_id = c.account_id and e.sequence = c.sequence and e.recorded_at = c.recorded_at
      limit 1
    ) e on true
    order by c.due_at`
  await setHeads(
    tx,
    looked.map(({ id }) => id),
    endpoints.map(({ id }) => id),
  )
  return { endpoints, claimed }
}

/** Points locked endpoints at the first of what still waits; those with nothing left, or disabled, go. */
async function setHeads(tx: Sql, looked: string[], enabled: string[]): Promise<void> {
  await tx`
    with head as materialized (
      select endpoint_id, (
        select due_at from deliveries d
        where d.endpoint_id = endpoint.endpoint_id and d.claim_id is null and d.due_at is not null
        order by due_at limit 1
      ) as due_at
      from unnest(${enabled}::text[]) as endpoint (endpoint_id)
    ), gone as (
      delete from waiting_endpoints
      where endpoint_id = any(${looked}::text[])
        and endpoint_id not in (select endpoint_id from head where due_at is not null)
    )
    update waiting_endpoints w set look_at = head.due_at from head
    where w.endpoint_id = head.endpoint_id and head.due_at is not null`
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
  const freed = await sql<{ endpointId: string; dueAt: Date }[]>`
    update deliveries d set claim_id = null, claimed_until = null
    from unnest(${works.map(({ id }) => id)}::text[], ${works.map(({ claimId }) => claimId)}::uuid[]) as held (id, claim_id)
    where d.claimed_until is not null and d.id = held.id and d.claim_id = held.claim_id
    returning d.endpoint_id as "endpointId", d.due_at as "dueAt"`
  await lookAtFreed(sql, freed)
}

/** Frees what senders hold that are gone or stuck: their leases are over. @returns how many */
export async function freeExpiredClaims(sql: Sql, most: number): Promise<number> {
  const freed = await sql<{ endpointId: string; dueAt: Date }[]>`
    update deliveries d set claim_id = null, claimed_until = null
    from (
      select application_id, id from deliveries where claimed_until < clock_timestamp()
      order by claimed_until limit ${most} for update skip locked
    ) expired
    where d.application_id = expired.application_id and d.id = expired.id
    returning d.endpoint_id as "endpointId", d.due_at as "dueAt"`
  await lookAtFreed(sql, freed)
  return freed.length
}

async function lookAtFreed(sql: Sql, freed: { endpointId: string; dueAt: Date }[]): Promise<void> {
  const first = freed.reduce((least, { dueAt }) => Math.min(least, dueAt.getTime()), Infinity)
  if (freed.length === 0) return
  await lookAt(sql, [...new Set(freed.map(({ endpointId }) => endpointId))], new Date(first))
}
