import type { Sql } from '@licensing/database/connect'
import type { PlanStatus } from '@licensing/proto/closed-sets'
import type { Metadata } from '@licensing/proto/metadata'
import { storeSnapshotsOfInserted } from '../plans/snapshot-queries.ts'
import { licenceColumns, skipLocked } from '../lifecycle/licence-queries.ts'
import type { OnLocked } from '../lifecycle/licence-queries.ts'
import type { LicenceRow } from '../lifecycle/licence-row.ts'
import { initialStatus } from '../lifecycle/licence.ts'

const { issued } = initialStatus

/** A licence to issue. */
export interface NewLicence {
  id: string
  key: string
  accountId: string
  applicationId: string
  planId: string
  actor: string
  externalRef: string
  domains: string[]
  maxActivations: number | null
  maxSeats: number | null
  maxConcurrent: number | null
  leaseMinutes: number | null
  expiresOn: Date | null
  metadata: Metadata
  updatesUntil: Date | null
  idempotencyKey: string
  /** SHA-256, hexadecimal. */
  bodyHash: string
}

/**
 * Inserts licences in one statement, if the idempotency key is new, the plan is active and the expiry is in the future. It
 * locks the plans shared, so that they cannot be archived meanwhile, and inserts in the order of keys, so that two such
 * statements cannot deadlock. If another transaction has locked a plan exclusively, it waits, or skips that plan's licences.
 *
 * @returns the creation times by licence id; a licence that was not inserted is not in the map
 */
export async function insertLicences(
  sql: Sql,
  licences: NewLicence[],
  onLocked: OnLocked,
): Promise<Map<string, Date>> {
  const column = <K extends keyof NewLicence>(name: K) => licences.map((licence) => licence[name])
  const rows = await sql<{ id: string; created_at: Date }[]>`
    with request as materialized (
      select * from unnest(
        ${column('id')}::text[], ${column('key')}::text[], ${column('accountId')}::text[],
        ${column('applicationId')}::text[], ${column('planId')}::text[], ${column('actor')}::text[],
        ${column('externalRef')}::text[], ${licences.map((licence) => arrayLiteral(licence.domains))}::text[],
        ${column('maxActivations')}::int[], ${column('maxSeats')}::int[],
        ${licences.map((licence) => licence.expiresOn?.toISOString() ?? null)}::text[]::timestamptz[],
        ${column('idempotencyKey')}::text[], ${column('bodyHash')}::text[],
        ${column('maxConcurrent')}::int[], ${column('leaseMinutes')}::int[],
        ${licences.map((licence) => JSON.stringify(licence.metadata))}::text[]::jsonb[],
        ${licences.map((licence) => licence.updatesUntil?.toISOString() ?? null)}::text[]::timestamptz[]
      ) as request (id, key, account_id, application_id, plan_id, actor, external_ref, domains, max_activations,
        max_seats, expires_on, idempotency_key, idempotency_hash, max_concurrent, lease_minutes, metadata, updates_until)
    ),
    plan as materialized (
      select p.id, p.account_id, p.application_id, p.status, p.snapshot_id, p.entitlements from plans p
      where p.id in (select plan_id from request) order by p.id for share ${skipLocked(sql, onLocked)}
    ),
    inserted as (
      insert into licences (id, key, account_id, application_id, plan_id, status, external_ref, domains,
        max_activations, max_seats, expires_on, snapshot_id, idempotency_key, idempotency_hash, max_concurrent,
        lease_minutes, metadata, updates_until)
      select r.id, r.key, r.account_id, r.application_id, r.plan_id, ${issued.status}, r.external_ref, r.domains::text[],
        r.max_activations, r.max_seats, r.expires_on, p.snapshot_id, r.idempotency_key,
        decode(r.idempotency_hash, 'hex'), r.max_concurrent, r.lease_minutes, r.metadata, r.updates_until
      from request r
      join plan p on p.id = r.plan_id and p.application_id = r.application_id and p.account_id = r.account_id
      where p.status = 'active' and (r.expires_on is null or r.expires_on > now())
      order by r.application_id, r.idempotency_key, r.id
      on conflict (application_id, idempotency_key) where idempotency_key is not null do nothing
      returning id, application_id, plan_id, domains, created_at
    ),
    captured as (${storeSnapshotsOfInserted(sql)}),
    recorded as (
      insert into licence_history (licence_id, at, type, to_status, actor)
      select m.id, m.created_at, ${issued.history}, ${issued.status}, r.actor from inserted m join request r on r.id = m.id
    ),
    found_by as (${findByDomainsOfInserted(sql)}),
    counted as (
      insert into plan_counts (plan_id, shard, active)
      select plan_id, pg_backend_pid() % 16, count(*) from inserted group by plan_id order by plan_id
      on conflict (plan_id, shard) do update set active = plan_counts.active + excluded.active
    )
    select id, created_at from inserted`
  return new Map(rows.map((row) => [row.id, row.created_at]))
}

/** A part of a statement with the new licences in `inserted`: they are found by the hosts that they are restricted to. */
export const findByDomainsOfInserted = (sql: Sql) => sql`
  insert into licence_hosts (application_id, host, licence_id)
  select distinct m.application_id, domain, m.id from inserted m, unnest(m.domains) as domain`

/** Why a request inserted no licence. */
export type NotInserted = { id: string; plan_status: PlanStatus | null; past: boolean } & (
  (LicenceRow & { same_body: boolean; found: true }) | { found: false }
)

/** Reads for each request the licence that has its idempotency key, and the status of its plan. */
export async function whyNotInserted(sql: Sql, licences: NewLicence[]): Promise<Map<string, NotInserted>> {
  const rows = await sql<(NotInserted & { request_id: string })[]>`
    select r.id as request_id, p.status as plan_status, r.expires_on <= now() as past,
      l.id is not null as found, l.idempotency_hash = decode(r.idempotency_hash, 'hex') as same_body,
      ${licenceColumns(sql)}
    from unnest(
      ${licences.map((licence) => licence.id)}::text[],
      ${licences.map((licence) => licence.accountId)}::text[],
      ${licences.map((licence) => licence.applicationId)}::text[],
      ${licences.map((licence) => licence.planId)}::text[],
      ${licences.map((licence) => licence.expiresOn?.toISOString() ?? null)}::text[]::timestamptz[],
      ${licences.map((licence) => licence.idempotencyKey)}::text[],
      ${licences.map((licence) => licence.bodyHash)}::text[]
    ) as r (id, account_id, application_id, plan_id, expires_on, idempotency_key, idempotency_hash)
    left join licences l on l.application_id = r.application_id and l.account_id = r.account_id
      and l.idempotency_key = r.idempotency_key
    left join plans p on p.id = r.plan_id and p.application_id = r.application_id
      and p.account_id = r.account_id`
  return new Map(rows.map((row) => [row.request_id, row]))
}

// No checked domain contains a character that would have to be escaped.
function arrayLiteral(domains: string[]): string {
  return `{${domains.map((domain) => `"${domain}"`).join(',')}}`
}
