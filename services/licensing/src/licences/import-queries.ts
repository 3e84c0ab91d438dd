import type { Sql } from '@licensing/database/connect'
import type { Metadata } from '@licensing/proto/metadata'
import { rowsOf } from '@licensing/database/row-queries'
import { storeSnapshotsOfInserted } from '../plans/snapshot-queries.ts'
import { initialStatus } from '../lifecycle/licence.ts'
import { findByDomainsOfInserted } from './issue-queries.ts'

const { imported } = initialStatus

/** A valid item that becomes a licence. */
export interface NewImport {
  id: string
  key: string
  legacy_key: string
  external_ref: string
  plan_id: string
  metadata: Metadata
  updates_until: Date | null
  expires_on: Date | null
  domains: string[]
  max_activations: number | null
  max_seats: number | null
  max_concurrent: number | null
  lease_minutes: number | null
}

export interface ImportScope {
  accountId: string
  applicationId: string
  actor: string
}

/**
 * Inserts the licences of a batch in one statement, if the legacy key is new, the plan is active and the expiry is in the
 * future. If a legacy key occurs twice, the first item is used. It inserts in the order of keys, so that two imports cannot
 * deadlock.
 *
 * @returns the ids of the inserted licences
 */
export async function insertImports(sql: Sql, scope: ImportScope, items: NewImport[]): Promise<Set<string>> {
  const rows = await sql<{ id: string }[]>`
    with item as materialized (select * from ${rowsOf(sql, 'licences', items)} with ordinality),
    plan as materialized (
      select p.id, p.snapshot_id, p.status, p.entitlements from plans p
      where p.id in (select plan_id from item)
        and p.application_id = ${scope.applicationId} and p.account_id = ${scope.accountId}
      order by p.id for share
    ),
    inserted as (
      insert into licences (id, key, account_id, application_id, plan_id, status, external_ref, snapshot_id,
        legacy_key, metadata, updates_until, expires_on, domains, max_activations, max_seats, max_concurrent,
        lease_minutes)
      select i.id, i.key, ${scope.accountId}, ${scope.applicationId}, i.plan_id, ${imported.status}, i.external_ref,
        p.snapshot_id, i.legacy_key, i.metadata, i.updates_until, i.expires_on, i.domains, i.max_activations, i.max_seats,
        i.max_concurrent, i.lease_minutes
      from item i join plan p on p.id = i.plan_id and p.status = 'active'
      where i.expires_on is null or i.expires_on > now()
      order by i.legacy_key, i.ordinality
      on conflict (application_id, legacy_key) where legacy_key is not null do nothing
      returning id, application_id, plan_id, domains, created_at
    ),
    found_by as (${findByDomainsOfInserted(sql)}),
    captured as (${storeSnapshotsOfInserted(sql)}),
    recorded as (
      insert into licence_history (licence_id, at, type, to_status, actor)
      select id, created_at, ${imported.history}, ${imported.status}, ${scope.actor} from inserted
    ),
    counted as (
      insert into plan_counts (plan_id, shard, active)
      select plan_id, pg_backend_pid() % 16, count(*) from inserted group by plan_id order by plan_id
      on conflict (plan_id, shard) do update set active = plan_counts.active + excluded.active
    )
    select id from inserted`
  return new Set(rows.map((row) => row.id))
}

/** Licence ids by legacy key. */
export async function findByLegacyKey(
  sql: Sql,
  { accountId, applicationId }: ImportScope,
  legacyKeys: string[],
): Promise<Map<string, string>> {
  const rows = await sql<{ id: string; legacy_key: string }[]>`
    select id, legacy_key from licences
    where application_id = ${applicationId} and account_id = ${accountId}
      and legacy_key = any(${legacyKeys}::text[])`
  return new Map(rows.map((row) => [row.legacy_key, row.id]))
}
