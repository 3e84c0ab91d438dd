import { plainArray } from '@licensing/database/arrays'
import type { Sql } from '@licensing/database/connect'
import type { DisabledReason, EndpointStatus } from '@licensing/proto/closed-sets'
import { failingFrom } from './endpoint.ts'
import type { Endpoint, Subscription } from './endpoint.ts'

/** The ids that identify an endpoint. It is found only under its own account and application. */
export interface EndpointPath {
  accountId: string
  applicationId: string
  endpointId: string
}

const rowColumns = (sql: Sql) =>
  sql`id, account_id, application_id, url, subscribed_events, encrypted_secret, generation, status`

/** The columns of an endpoint that are needed to send, at some generation. */
export interface EndpointRow {
  id: string
  account_id: string
  application_id: string
  url: string
  subscribed_events: Subscription
  encrypted_secret: Uint8Array
  generation: bigint
  status: EndpointStatus
}

export async function insertEndpoint(
  sql: Sql,
  row: Omit<EndpointRow, 'generation' | 'status'> & { created_at: Date },
): Promise<void> {
  await sql`
    insert into endpoints (id, account_id, application_id, url, subscribed_events, encrypted_secret, created_at)
    values (${row.id}, ${row.account_id}, ${row.application_id}, ${row.url}, ${row.subscribed_events}::text[],
      ${Buffer.from(row.encrypted_secret)}, ${row.created_at})`
}

/** Only one transaction at a time registers endpoints of an application. */
export async function lockRegistration(sql: Sql, applicationId: string): Promise<void> {
  await sql`select pg_advisory_xact_lock(hashtextextended(${`endpoints of ${applicationId}`}, 0))`
}

export async function countEnabledEndpoints(sql: Sql, applicationId: string): Promise<number> {
  const [row] = await sql<{ count: number }[]>`
    select count(*)::int as count from endpoints where application_id = ${applicationId} and status = 'enabled'`
  return row!.count
}

/** Lists one endpoint, or a page of the endpoints of an application, newest first. */
export async function findEndpoints(
  sql: Sql,
  of: { accountId: string; applicationId: string; id?: string; beforeId?: string; limit: number },
): Promise<Endpoint[]> {
  // `failingFrom` is a literal, not a parameter: only then does the planner use the index deliveries_failing.
  return sql<Endpoint[]>`
    select e.id, e.url, e.subscribed_events, e.status, e.created_at, e.disabled_at, e.disabled_reason,
      failing.scheduled_attempts as failing_attempts, failing.since as failing_since,
      case when e.status = 'enabled' then coalesce(h.pending, 0) else 0 end::bigint as pending,
      h.last_success_at, h.last_failure_at, h.failing_since as health_failing_since
    from endpoints e
    left join endpoint_health h on h.endpoint_id = e.id
    left join lateral (
      select d.scheduled_attempts, (select a.at from attempts a where a.delivery_id = d.id and a.attempt = 1) as since
      from deliveries d
      where d.endpoint_id = e.id and d.status = 'pending' and e.status = 'enabled'
        and d.scheduled_attempts >= ${sql.unsafe(String(failingFrom))}
      order by d.scheduled_attempts desc limit 1
    ) failing on true
    where e.account_id = ${of.accountId} and e.application_id = ${of.applicationId}
      ${of.id === undefined ? sql`` : sql`and e.id = ${of.id}`}
      ${of.beforeId === undefined ? sql`` : sql`and e.id < ${of.beforeId}`}
    order by e.id desc limit ${of.limit}`
}

interface EndpointOwner {
  id: string
  account_id: string
  application_id: string
  url: string
}

/** The accounts, applications and URLs of endpoints. */
export async function findEndpointOwners(sql: Sql, ids: string[]): Promise<EndpointOwner[]> {
  return sql<EndpointOwner[]>`
    select id, account_id, application_id, url from endpoints where id = any(${ids}::text[])`
}

/**
 * Records that the vendors of at most `limit` of these endpoints are alerted about secrets that cannot be decrypted.
 * Endpoints without a delivery that was due before a time are left out.
 *
 * @returns the endpoints for which that was not recorded before
 */
export async function markUnreadableReported(
  tx: Sql,
  endpoints: Pick<EndpointRow, 'id' | 'generation'>[],
  { dueBefore, limit }: { dueBefore: Date; limit: number },
): Promise<EndpointOwner[]> {
  return tx<EndpointOwner[]>`
    update endpoints e set unreadable_reported = e.generation
    from (
      select known.id from endpoints known
      join unnest(
        ${plainArray(endpoints.map(({ id }) => id))}::text[],
        ${plainArray(endpoints.map(({ generation }) => generation))}::bigint[]
      ) as unreadable (id, generation) on unreadable.id = known.id and unreadable.generation = known.generation
      join waiting_endpoints w on w.endpoint_id = known.id and w.next_due_at < ${dueBefore}
      where known.status = 'enabled' and known.unreadable_reported is distinct from known.generation
      order by known.id limit ${limit} for update of known
    ) unreported
    where e.id = unreported.id
    returning e.id, e.account_id, e.application_id, e.url`
}

const isAt = (sql: Sql, { accountId, applicationId, endpointId }: EndpointPath) => sql`
  id = ${endpointId} and account_id = ${accountId} and application_id = ${applicationId}`

/** An endpoint, without locking it; null if there is none. */
export async function findEndpointRow(sql: Sql, path: EndpointPath): Promise<EndpointRow | null> {
  const [row] = await sql<EndpointRow[]>`
    select ${rowColumns(sql)} from endpoints where ${isAt(sql, path)}`
  return row ?? null
}

/** Prevents other transactions from changing an endpoint's status until this one ends. @returns null if there is none */
export async function lockEndpoint(sql: Sql, path: EndpointPath): Promise<EndpointRow | null> {
  const [row] = await sql<EndpointRow[]>`
    select ${rowColumns(sql)} from endpoints where ${isAt(sql, path)} for share`
  return row ?? null
}

/** Prevents other transactions from changing these endpoints until this one ends. */
export async function lockEndpoints(sql: Sql, ids: string[]): Promise<void> {
  await sql`select 1 from endpoints where id = any(${ids}::text[]) order by id for update`
}

/** @returns null if the endpoint does not exist or is disabled */
export async function changeSecret(
  sql: Sql,
  path: EndpointPath,
  encryptedSecret: Buffer,
): Promise<EndpointRow | null> {
  const [row] = await sql<EndpointRow[]>`
    update endpoints
    set encrypted_secret = ${encryptedSecret}, generation = ${nextGeneration(sql)}, changed_at = clock_timestamp()
    where ${isAt(sql, path)} and status = 'enabled'
    returning ${rowColumns(sql)}`
  return row ?? null
}

/** Greater than each generation before, also of a time that the database has lost: processes keep settings by generation. */
const nextGeneration = (sql: Sql) =>
  sql`greatest(generation + 1, (extract(epoch from clock_timestamp()) * 1000)::bigint)`

/** enabled → disabled. @returns undefined if the endpoint was disabled before */
export async function markDisabled(
  sql: Sql,
  endpointId: string,
  reason: DisabledReason,
  at: Date,
): Promise<Pick<EndpointRow, 'account_id' | 'application_id'> | undefined> {
  const [owner] = await sql<Pick<EndpointRow, 'account_id' | 'application_id'>[]>`
    update endpoints
    set status = 'disabled', disabled_at = ${at}, disabled_reason = ${reason}, is_cleanup_due = true,
      generation = ${nextGeneration(sql)}, changed_at = clock_timestamp()
    where id = ${endpointId} and status = 'enabled' returning account_id, application_id`
  return owner
}

/** Ends the search for due deliveries of the endpoint. */
export async function deleteWaiting(sql: Sql, endpointId: string): Promise<void> {
  await sql`delete from waiting_endpoints where endpoint_id = ${endpointId}`
}

/** Records that the disabled endpoint has no pending deliveries any more. */
export async function markCleanedUp(sql: Sql, endpointId: string): Promise<void> {
  await sql`update endpoints set is_cleanup_due = false where id = ${endpointId}`
}

/** Lists the enabled endpoints of applications. Other transactions cannot disable them until this one ends. */
export async function lockEnabledEndpoints(sql: Sql, applicationIds: string[]): Promise<EndpointRow[]> {
  return sql<EndpointRow[]>`
    select ${rowColumns(sql)} from endpoints
    where application_id = any(${applicationIds}::text[]) and status = 'enabled'
    order by id for share`
}

export async function findEndpointRows(sql: Sql, ids: string[]): Promise<EndpointRow[]> {
  return sql<EndpointRow[]>`select ${rowColumns(sql)} from endpoints where id = any(${ids}::text[])`
}

/** Endpoints changed after a time of the database's clock. */
export async function listChangedEndpoints(sql: Sql, after: Date): Promise<EndpointRow[]> {
  return sql<EndpointRow[]>`select ${rowColumns(sql)} from endpoints where changed_at > ${after}`
}

export async function listSecrets(
  sql: Sql,
  afterId: string,
  limit: number,
): Promise<{ id: string; secret: Uint8Array }[]> {
  return sql<{ id: string; secret: Uint8Array }[]>`
    select id, encrypted_secret as secret from endpoints where id > ${afterId} order by id limit ${limit}`
}

/** Replaces the encrypted form of the same secret. @returns false if the secret was changed meanwhile */
export async function replaceSecret(
  sql: Sql,
  id: string,
  former: Uint8Array,
  next: Buffer,
): Promise<boolean> {
  const replaced = await sql`
    update endpoints set encrypted_secret = ${next}
    where id = ${id} and encrypted_secret = ${Buffer.from(former)}`
  return replaced.count > 0
}
