import type { Sql } from '@licensing/database/connect'
import type { LicenceStatus } from '../licences/licence.ts'
import type { SnapshotEntitlement } from '../plans/snapshot.ts'

/** What decides whether a product may run, and what its token says. */
export interface ProductLicence {
  id: string
  account_id: string
  application_id: string
  plan_id: string
  status: LicenceStatus
  domains: string[]
  max_activations: number | null
  max_seats: number | null
  expires_on: Date | null
  entitlements: SnapshotEntitlement[]
}

export interface ActivationRow {
  id: string
  licence_id: string
  application_id: string
}

const licenceColumns = (sql: Sql) => sql`
  l.id, l.account_id, l.application_id, l.plan_id, l.status, l.domains, l.max_activations, l.max_seats, l.expires_on,
  s.entitlements`

/** Locks the licence of a key, so that its places are given out one by one. */
export async function lockLicenceOfKey(sql: Sql, key: string): Promise<ProductLicence | undefined> {
  const [row] = await sql<ProductLicence[]>`
    select ${licenceColumns(sql)} from licences l join snapshots s on s.id = l.snapshot_id
    where l.key = ${key} for update of l`
  return row
}

export async function findActivation(
  sql: Sql,
  activationId: string,
): Promise<{ activation: ActivationRow; licence: ProductLicence } | undefined> {
  const [row] = await sql<(ProductLicence & { activation_id: string })[]>`
    select a.id as activation_id, ${licenceColumns(sql)}
    from activations a join licences l on l.id = a.licence_id join snapshots s on s.id = l.snapshot_id
    where a.id = ${activationId}`
  if (!row) return undefined
  const activation = { id: row.activation_id, licence_id: row.id, application_id: row.application_id }
  return { activation, licence: row }
}

export async function findActivationOf(
  sql: Sql,
  licenceId: string,
  fingerprint: string,
): Promise<{ id: string } | undefined> {
  const [row] = await sql<{ id: string }[]>`
    select id from activations where licence_id = ${licenceId} and fingerprint = ${fingerprint}`
  return row
}

export async function countActivations(sql: Sql, licenceId: string): Promise<number> {
  const [row] = await sql<{ count: number }[]>`
    select count(*)::int as count from activations where licence_id = ${licenceId}`
  return row!.count
}

export async function insertActivation(
  sql: Sql,
  activation: {
    id: string
    licence: ProductLicence
    fingerprint: string
    host: string
    productVersion: string
  },
): Promise<void> {
  const { id, licence, fingerprint, host, productVersion } = activation
  await sql`
    insert into activations (id, account_id, application_id, licence_id, fingerprint, host, product_version)
    values (${id}, ${licence.account_id}, ${licence.application_id}, ${licence.id}, ${fingerprint}, ${host},
      ${productVersion})`
}

export async function deleteActivation(sql: Sql, activationId: string): Promise<boolean> {
  const { count } = await sql`delete from activations where id = ${activationId}`
  return count === 1
}

/** A product that said where it runs, and as which version. */
export interface CallHome {
  activationId: string
  licenceId: string
  applicationId: string
  host: string
  productVersion: string
  /** ISO 8601. */
  seenAt: string
}

/** Records calls of many products in one statement. Lock order: licences, activations, then the rest, each by id. */
export async function recordCallHomes(sql: Sql, calls: CallHome[]): Promise<void> {
  await sql`
    with call as materialized (
      select * from unnest(
        ${calls.map((call) => call.activationId)}::text[],
        ${calls.map((call) => call.licenceId)}::text[],
        ${calls.map((call) => call.applicationId)}::text[],
        ${calls.map((call) => call.host)}::text[],
        ${calls.map((call) => call.productVersion)}::text[],
        ${calls.map((call) => call.seenAt)}::timestamptz[]
      ) with ordinality as call (activation_id, licence_id, application_id, host, product_version, seen_at, place)
    ),
    latest as materialized (
      select distinct on (activation_id) * from call order by activation_id, place desc
    ),
    unseen as (
      select l.id from licences l
      where l.id in (select licence_id from call) and not l.seen order by l.id for update
    ),
    marked as (
      update licences l set seen = true from unseen where l.id = unseen.id
    ),
    held as materialized (
      select a.id from activations a join latest on latest.activation_id = a.id order by a.id for update of a
    ),
    moved as (
      update activations a
      set host = latest.host, product_version = latest.product_version,
        last_seen_at = greatest(a.last_seen_at, latest.seen_at)
      from latest join held on held.id = latest.activation_id where a.id = latest.activation_id
    ),
    active as (
      insert into licence_activity (licence_id, application_id, last_seen_at)
      select licence_id, application_id, max(seen_at) from call group by 1, 2 order by 1
      on conflict (licence_id) do update
      set last_seen_at = greatest(licence_activity.last_seen_at, excluded.last_seen_at)
    ),
    hosts as (
      insert into licence_hosts (application_id, host, licence_id)
      select distinct application_id, host, licence_id from call order by 1, 2, 3
      on conflict do nothing
    )
    insert into call_homes (licence_id, host, product_version, seen_at)
    select licence_id, host, product_version, seen_at from call order by place`
}

/** Marks the first exchange of a legacy key. @returns whether it was the first */
export async function markMigrated(sql: Sql, licenceId: string): Promise<boolean> {
  const { count } = await sql`
    update licences set migrated_at = now() where id = ${licenceId} and migrated_at is null`
  return count === 1
}

export async function findByLegacyKey(
  sql: Sql,
  applicationId: string,
  legacyKey: string,
): Promise<{ id: string; key: string; status: string; migrated: boolean } | undefined> {
  const [row] = await sql<{ id: string; key: string; status: string; migrated: boolean }[]>`
    select id, key, status, migrated_at is not null as migrated from licences
    where application_id = ${applicationId} and legacy_key = ${legacyKey}`
  return row
}
