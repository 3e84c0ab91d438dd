import type { Sql } from '@licensing/database/connect'
import type { DisabledReason, EndpointStatus } from '@licensing/proto/closed-sets'
import type { Endpoint } from './endpoint.ts'
import type { Subscription } from './subscription.ts'

/** Where an endpoint is found: under its account and application alone. */
export interface EndpointPath {
  accountId: string
  applicationId: string
  endpointId: string
}

/** What sending needs of an endpoint, as it stood at some generation. */
export interface EndpointRow {
  id: string
  applicationId: string
  url: string
  subscribedEvents: Subscription
  encryptedSecret: Uint8Array
  generation: bigint
  status: EndpointStatus
}

export async function insertEndpoint(
  sql: Sql,
  endpoint: {
    id: string
    accountId: string
    applicationId: string
    url: string
    subscribedEvents: Subscription
    encryptedSecret: Buffer
    createdAt: Date
  },
): Promise<void> {
  const { id, accountId, applicationId, url, subscribedEvents, encryptedSecret, createdAt } = endpoint
  await sql`
    insert into endpoints (id, account_id, application_id, url, subscribed_events, encrypted_secret, created_at)
    values (${id}, ${accountId}, ${applicationId}, ${url}, ${subscribedEvents}::text[], ${encryptedSecret}, ${createdAt})`
}

/** Newest first: one endpoint, or a page of an application's. */
export async function readEndpoints(
  sql: Sql,
  of: { accountId: string; applicationId: string; id?: string; beforeId?: string; limit: number },
): Promise<Endpoint[]> {
  return sql<Endpoint[]>`
    select e.id, e.url, e.subscribed_events as "subscribedEvents", e.status, e.created_at as "createdAt",
      e.disabled_at as "disabledAt", e.disabled_reason as "disabledReason",
      failing.scheduled_attempts as "failingAttempts", failing.since as "failingSince"
    from endpoints e
    left join lateral (
      select d.scheduled_attempts, (select a.at from attempts a where a.delivery_id = d.id and a.attempt = 1) as since
      from deliveries d
      where d.endpoint_id = e.id and d.status = 'pending' and d.scheduled_attempts >= 4 and e.status = 'enabled'
      order by d.scheduled_attempts desc limit 1
    ) failing on true
    where e.account_id = ${of.accountId} and e.application_id = ${of.applicationId}
      ${of.id === undefined ? sql`` : sql`and e.id = ${of.id}`}
      ${of.beforeId === undefined ? sql`` : sql`and e.id < ${of.beforeId}`}
    order by e.id desc limit ${of.limit}`
}

export async function hasEndpoint(
  sql: Sql,
  { accountId, applicationId, endpointId }: EndpointPath,
): Promise<boolean> {
  const rows = await sql`
    select 1 from endpoints
    where id = ${endpointId} and account_id = ${accountId} and application_id = ${applicationId}`
  return rows.length > 0
}

/** An endpoint, whose status no other transaction changes until this one ends; null where there is none. */
export async function lockEndpoint(
  sql: Sql,
  { accountId, applicationId, endpointId }: EndpointPath,
): Promise<EndpointRow | null> {
  const [row] = await sql<EndpointRow[]>`
    select ${rowColumns(sql)} from endpoints
    where id = ${endpointId} and account_id = ${accountId} and application_id = ${applicationId}
    for share`
  return row ?? null
}

/** @returns null where the endpoint is not there or disabled */
export async function changeSecret(
  sql: Sql,
  { accountId, applicationId, endpointId }: EndpointPath,
  encryptedSecret: Buffer,
): Promise<EndpointRow | null> {
  const [row] = await sql<EndpointRow[]>`
    update endpoints
    set encrypted_secret = ${encryptedSecret}, generation = generation + 1, changed_at = clock_timestamp()
    where id = ${endpointId} and account_id = ${accountId} and application_id = ${applicationId}
      and status = 'enabled'
    returning ${rowColumns(sql)}`
  return row ?? null
}

/** enabled → disabled; false where somebody else was first. */
export async function markDisabled(
  sql: Sql,
  endpointId: string,
  reason: DisabledReason,
  at: Date,
): Promise<boolean> {
  const changed = await sql`
    update endpoints
    set status = 'disabled', disabled_at = ${at}, disabled_reason = ${reason}, has_leftovers = true,
      generation = generation + 1, changed_at = clock_timestamp()
    where id = ${endpointId} and status = 'enabled'`
  return changed.count === 1
}

/** Enabled endpoints of applications; they stay enabled until the transaction ends. */
export async function lockEnabledEndpoints(sql: Sql, applicationIds: string[]): Promise<EndpointRow[]> {
  return sql<EndpointRow[]>`
    select ${rowColumns(sql)} from endpoints
    where application_id = any(${applicationIds}::text[]) and status = 'enabled'
    order by id for share`
}

export async function readEndpointRows(sql: Sql, ids: string[]): Promise<EndpointRow[]> {
  return sql<EndpointRow[]>`select ${rowColumns(sql)} from endpoints where id = any(${ids}::text[])`
}

/** Endpoints changed after a time of the database's clock. */
export async function readChangedEndpoints(sql: Sql, after: Date): Promise<EndpointRow[]> {
  return sql<EndpointRow[]>`select ${rowColumns(sql)} from endpoints where changed_at > ${after}`
}

export async function readDatabaseTime(sql: Sql): Promise<Date> {
  const [row] = await sql<{ now: Date }[]>`select clock_timestamp() as now`
  return row!.now
}

function rowColumns(sql: Sql) {
  return sql`id, application_id as "applicationId", url, subscribed_events as "subscribedEvents",
    encrypted_secret as "encryptedSecret", generation, status`
}
