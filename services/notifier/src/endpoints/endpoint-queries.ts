import type { Sql, Statement } from '@licensing/database/connect'
import { stays } from '@licensing/moves/move-queries'
import { insertRows, rowsOf } from '@licensing/database/row-queries'
import type { DisabledReason, EndpointStatus } from '@licensing/proto/closed-sets'
import { inPending } from '../delivery-states.ts'
import { failingFrom } from './endpoint.ts'
import type { Endpoint, FieldColumns } from './endpoint.ts'

/** The ids that identify an endpoint. It is found only under its own account and application. */
export interface EndpointPath {
  accountId: string
  applicationId: string
  endpointId: string
}

const fieldColumns = (sql: Sql) =>
  sql`url, subscribed_events, description, header_names, plans, paused, signature`

const rowColumns = (sql: Sql) => sql`
  id, account_id, application_id, ${fieldColumns(sql)}, encrypted_headers, encrypted_secret, former_secret,
  former_secret_until, generation, status`

/** The columns of an endpoint that are needed to send, at some generation. */
export interface EndpointRow extends FieldColumns, EndpointSecrets {
  id: string
  account_id: string
  application_id: string
  generation: bigint
  status: EndpointStatus
}

/** Columns that are encrypted, each bound to the endpoint's id. */
export interface EndpointSecrets {
  encrypted_headers: Uint8Array | null
  encrypted_secret: Uint8Array
  /** The secret before the last rotation. Attempts are signed with it too until this time. */
  former_secret: Uint8Array | null
  former_secret_until: Date | null
}

/** Columns that a change of an endpoint writes. */
export type EndpointChange = Partial<FieldColumns & EndpointSecrets>

interface NewEndpoint extends EndpointChange {
  id: string
  account_id: string
  application_id: string
  created_at: Date
}

export async function insertEndpoint(sql: Sql, row: NewEndpoint): Promise<void> {
  await insertRows(sql, 'endpoints', [row])
}

/** Changes an endpoint that the transaction has locked. */
export async function writeEndpoint(sql: Sql, id: string, change: EndpointChange): Promise<EndpointRow> {
  const columns = sql(Object.keys(change))
  const [row] = await sql<[EndpointRow]>`
    update endpoints
    set (${columns}) = (select ${columns} from ${rowsOf(sql, 'endpoints', [change])}),
      generation = ${nextGeneration(sql)}, changed_at = clock_timestamp()
    where id = ${id}
    returning ${rowColumns(sql)}`
  return row
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

/** The values from which the time follows at which an endpoint is disabled. */
export interface RetrySchedule {
  now: Date
  /** Milliseconds from the next attempt of a delivery to its last one, after its first to its eleventh failure. */
  remainingMs: readonly number[]
}

/**
 * The pending delivery of the endpoint `e` that uses up its attempts first: `failures` is how many have failed, `ends_at`
 * when the last one is due. Reads one row of the index for each number of failures.
 */
export const firstToEnd = (sql: Sql, { now, remainingMs }: RetrySchedule): Statement => sql`
  select d.id, remaining.failures, greatest(d.retry_at, ${now}) + remaining.ms * interval '1 millisecond' as ends_at
  from unnest(${[...remainingMs]}::bigint[]) with ordinality as remaining (ms, failures)
  cross join lateral (
    select d.id, d.retry_at from deliveries d
    where d.endpoint_id = e.id and d.status ${sql.unsafe(inPending)} and d.scheduled_attempts >= 1
      and d.scheduled_attempts = remaining.failures
    order by d.retry_at limit 1
  ) d
  where e.status = 'enabled' and not e.paused
  order by ends_at limit 1`

/** Lists one endpoint, or a page of the endpoints of an application, newest first. */
export async function findEndpoints(
  sql: Sql,
  of: { accountId: string; applicationId: string; id?: string; beforeId?: string; limit: number },
  schedule: RetrySchedule,
): Promise<Endpoint[]> {
  // `failingFrom` is a literal, not a parameter: only then does the planner use the index deliveries_failing.
  return sql<Endpoint[]>`
    select e.id, ${fieldColumns(sql)}, e.status, e.created_at, e.disabled_at, e.disabled_reason,
      failing.scheduled_attempts as failing_attempts, failing.since as failing_since,
      case when e.status = 'enabled' then coalesce(h.pending, 0) else 0 end::bigint as pending,
      h.last_success_at, h.last_failure_at, h.failing_since as health_failing_since, ending.ends_at as disables_at
    from endpoints e
    left join endpoint_health h on h.endpoint_id = e.id
    left join lateral (
      select d.scheduled_attempts, (select a.at from attempts a where a.delivery_id = d.id and a.attempt = 1) as since
      from deliveries d
      where d.endpoint_id = e.id and d.status ${sql.unsafe(inPending)} and e.status = 'enabled'
        and d.scheduled_attempts >= ${sql.unsafe(String(failingFrom))}
      order by d.scheduled_attempts desc limit 1
    ) failing on true
    left join lateral (${firstToEnd(sql, schedule)}) ending on true
    where e.account_id = ${of.accountId} and e.application_id = ${of.applicationId}
      ${of.id === undefined ? sql`` : sql`and e.id = ${of.id}`}
      ${of.beforeId === undefined ? sql`` : sql`and e.id < ${of.beforeId}`}
    order by e.id desc limit ${of.limit}`
}

export interface EndpointOwner {
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

const isAt = (sql: Sql, { accountId, applicationId, endpointId }: EndpointPath) => sql`
  id = ${endpointId} and account_id = ${accountId} and application_id = ${applicationId}`

/** An endpoint, without locking it; null if there is none. */
export async function findEndpointRow(sql: Sql, path: EndpointPath): Promise<EndpointRow | null> {
  const [row] = await sql<EndpointRow[]>`
    select ${rowColumns(sql)} from endpoints where ${isAt(sql, path)}`
  return row ?? null
}

/**
 * Prevents other transactions from changing an endpoint until this one ends.
 *
 * @param mode `update` if this transaction changes it
 * @returns null if there is none
 */
export async function lockEndpoint(
  sql: Sql,
  path: EndpointPath,
  mode: 'share' | 'update' = 'share',
): Promise<EndpointRow | null> {
  const [row] = await sql<EndpointRow[]>`
    select ${rowColumns(sql)} from endpoints where ${isAt(sql, path)} for ${sql.unsafe(mode)}`
  return row ?? null
}

/** Prevents other transactions from changing these endpoints until this one ends. */
export async function lockEndpoints(sql: Sql, ids: string[]): Promise<void> {
  await sql`select 1 from endpoints where id = any(${ids}::text[]) order by id for update`
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

/** Begins the search for due deliveries of the endpoint again, if any wait. */
export async function restoreWaiting(sql: Sql, endpointId: string): Promise<void> {
  await sql`
    insert into waiting_endpoints (endpoint_id, account_id, next_due_at)
    select endpoint_id, account_id, due_at from deliveries
    where endpoint_id = ${endpointId} and claim_id is null and due_at is not null
    order by due_at limit 1
    on conflict (endpoint_id) do update set next_due_at = least(waiting_endpoints.next_due_at, excluded.next_due_at)`
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

/** The columns of secrets. */
export const secretColumns = ['encrypted_secret', 'former_secret', 'encrypted_headers'] as const

type SecretColumn = (typeof secretColumns)[number]

export async function listSecrets(
  sql: Sql,
  column: SecretColumn,
  afterId: string,
  limit: number,
): Promise<{ id: string; secret: Uint8Array }[]> {
  return sql<{ id: string; secret: Uint8Array }[]>`
    select id, ${sql(column)} as secret from endpoints
    where id > ${afterId} and ${sql(column)} is not null order by id limit ${limit}`
}

/** Replaces the encrypted form of the same secret. @returns false if the secret was changed meanwhile */
export async function replaceSecret(
  sql: Sql,
  column: SecretColumn,
  id: string,
  former: Uint8Array,
  next: Buffer,
): Promise<boolean> {
  const replaced = await sql`
    update endpoints set ${sql(column)} = ${next}
    where id = ${id} and ${sql(column)} = ${Buffer.from(former)}`
  return replaced.count > 0
}

/** Deletes former secrets with which nothing is signed any more. */
export async function deleteFormerSecrets(sql: Sql, now: Date): Promise<void> {
  await sql`
    update endpoints set former_secret = null, former_secret_until = null
    where former_secret is not null and former_secret_until < ${now} and ${stays(sql, 'account_id')}`
}
