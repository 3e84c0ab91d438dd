import type { Sql } from '@licensing/database/connect'
import { rowsOf } from '@licensing/database/row-queries'
import type { PlanStatus } from '@licensing/proto/closed-sets'
import { storeSnapshotsOfInserted } from '../plans/snapshot-queries.ts'
import { licenceFields } from '../lifecycle/licence-fields.ts'
import type { FieldColumns } from '../lifecycle/licence-fields.ts'
import { licenceColumns, skipLocked } from '../lifecycle/licence-queries.ts'
import type { OnLocked } from '../lifecycle/licence-queries.ts'
import type { LicenceRow } from '../lifecycle/licence-row.ts'
import { initialStatus } from '../lifecycle/licence.ts'

/** A licence to issue or import. */
interface NewLicence extends FieldColumns {
  id: string
  key: string
  account_id: string
  application_id: string
  plan_id: string
  actor: string
}

export interface NewIssue extends NewLicence {
  idempotency_key: string
  /** SHA-256 of the request's body. */
  idempotency_hash: Uint8Array
}

export interface NewImport extends NewLicence {
  legacy_key: string
}

const newColumns = ['id', 'key', 'account_id', 'application_id', 'plan_id', ...licenceFields.columns]

/** The column that identifies a new licence in its application, and all columns that it is inserted with. */
export const inserts = {
  issued: { identity: 'idempotency_key', columns: [...newColumns, 'idempotency_key', 'idempotency_hash'] },
  imported: { identity: 'legacy_key', columns: [...newColumns, 'legacy_key'] },
} as const

/**
 * Inserts licences in one statement, if the idempotency key or legacy key is new, the plan is active and the expiry is in the
 * future. If a key occurs twice, the first licence is inserted. It locks the plans shared, so that they cannot be archived
 * meanwhile, and inserts in the order of keys, so that two such statements cannot deadlock. If another transaction has locked a
 * plan exclusively, it waits, or skips that plan's licences.
 *
 * @returns the creation times by licence id; a licence that was not inserted is not in the map
 */
export async function insertLicences(
  sql: Sql,
  how: { kind: 'issued'; licences: NewIssue[] } | { kind: 'imported'; licences: NewImport[] },
  onLocked: OnLocked,
): Promise<Map<string, Date>> {
  const { kind, licences } = how
  const { status, history } = initialStatus[kind]
  const { identity, columns } = parts[kind]
  const rows = await sql<{ id: string; created_at: Date }[]>`
    with given as materialized (
      select *, (${licences.map(({ actor }) => actor)}::text[])[ordinality] as actor
      from ${rowsOf<NewLicence>(sql, 'licences', licences)} given
    ),
    plan as materialized (
      select p.id, p.account_id, p.application_id, p.status, p.snapshot_id, p.entitlements from plans p
      where p.id in (select plan_id from given) order by p.id for share ${skipLocked(sql, onLocked)}
    ),
    inserted as (
      insert into licences (${sql.unsafe(columns.inserted)}, status, snapshot_id)
      select ${sql.unsafe(columns.given)}, ${status}, p.snapshot_id
      from given g
      join plan p on p.id = g.plan_id and p.application_id = g.application_id and p.account_id = g.account_id
      where p.status = 'active' and (g.expires_on is null or g.expires_on > now())
      order by g.application_id, g.${sql.unsafe(identity)}, g.ordinality
      on conflict (application_id, ${sql.unsafe(identity)}) where ${sql.unsafe(identity)} is not null do nothing
      returning id, application_id, plan_id, domains, max_concurrent, created_at
    ),
    captured as (${storeSnapshotsOfInserted(sql)}),
    recorded as (
      insert into licence_history (licence_id, at, type, to_status, actor)
      select i.id, i.created_at, ${history}, ${status}, g.actor from inserted i join given g on g.id = i.id
    ),
    found_by as (
      insert into licence_hosts (application_id, host, licence_id)
      select distinct i.application_id, domain, i.id from inserted i, unnest(i.domains) as domain
    ),
    floating as (
      insert into floating_licences (licence_id, activations)
      select id, 0 from inserted where max_concurrent is not null
    ),
    counted as (
      insert into plan_counts (plan_id, shard, active)
      select plan_id, pg_backend_pid() % 16, count(*) from inserted group by plan_id order by plan_id
      on conflict (plan_id, shard) do update set active = plan_counts.active + excluded.active
    )
    select id, created_at from inserted`
  return new Map(rows.map((row) => [row.id, row.created_at]))
}

const partsOf = ({ identity, columns }: (typeof inserts)['issued' | 'imported']) => ({
  identity,
  columns: { inserted: columns.join(', '), given: columns.map((name) => `g.${name}`).join(', ') },
})
const parts = { issued: partsOf(inserts.issued), imported: partsOf(inserts.imported) }

/** Why a request inserted no licence. */
export type NotInserted = { id: string; plan_status: PlanStatus | null; past: boolean } & (
  (LicenceRow & { same_body: boolean; found: true }) | { found: false }
)

/** Reads for each request the licence that has its idempotency key, and the status of its plan. */
export async function whyNotInserted(sql: Sql, licences: NewIssue[]): Promise<Map<string, NotInserted>> {
  const rows = await sql<(NotInserted & { request_id: string })[]>`
    select g.id as request_id, p.status as plan_status, g.expires_on <= now() as past,
      l.id is not null as found, l.idempotency_hash = g.idempotency_hash as same_body, ${licenceColumns(sql)}
    from ${rowsOf(sql, 'licences', licences)} g
    left join licences l on l.application_id = g.application_id and l.account_id = g.account_id
      and l.idempotency_key = g.idempotency_key
    left join plans p on p.id = g.plan_id and p.application_id = g.application_id
      and p.account_id = g.account_id`
  return new Map(rows.map((row) => [row.request_id, row]))
}

/** Licence ids by legacy key. */
export async function findByLegacyKey(
  sql: Sql,
  { accountId, applicationId }: { accountId: string; applicationId: string },
  legacyKeys: string[],
): Promise<Map<string, string>> {
  const rows = await sql<{ id: string; legacy_key: string }[]>`
    select id, legacy_key from licences
    where application_id = ${applicationId} and account_id = ${accountId}
      and legacy_key = any(${legacyKeys}::text[])`
  return new Map(rows.map((row) => [row.legacy_key, row.id]))
}
