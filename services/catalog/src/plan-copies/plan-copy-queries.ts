import type { Sql } from '@licensing/database/connect'
import { stays } from '@licensing/moves/move-queries'
import type { EntitlementKind, PlanStatus } from '@licensing/proto/closed-sets'

export interface PlanCopyRow {
  id: string
  account_id: string
  application_id: string
  status: PlanStatus
  version: bigint
  epoch: bigint
  archived_by: string
  archive_version: bigint
  code: string
  trial_days: number | null
  expiring_notice_days: number
  /** Key, kind, value and default of every definition of the application, sorted by key. */
  entitlements: [string, EntitlementKind, string, string][]
}

// One statement has one snapshot, so the version and the entitlements belong together even outside of a transaction.
const selectCopies = (sql: Sql) => sql`
  select p.id, a.account_id, p.application_id, p.status, p.version, (select current_epoch()) as epoch, p.archived_by, p.archive_version,
    p.code, p.trial_days, a.expiring_notice_days,
    coalesce(
      (
        select json_agg(
          json_build_array(d.key, d.kind, coalesce(o.value, d.default_value), d.default_value) order by d.key)
        from entitlement_definitions d
        left join plan_overrides o on o.plan_id = p.id and o.definition_id = d.id
        where d.application_id = p.application_id
      ), '[]') as entitlements
  from plans p join applications a on a.id = p.application_id`

export async function findCopy(
  sql: Sql,
  planId: string,
  accountId: string,
  applicationId: string,
): Promise<PlanCopyRow | undefined> {
  const [row] = await sql<PlanCopyRow[]>`
    ${selectCopies(sql)}
    where p.id = ${planId} and a.account_id = ${accountId} and p.application_id = ${applicationId}`
  return row
}

/** Copies in the order of plan ids, starting after `afterId`. */
export async function listCopiesAfter(sql: Sql, afterId: string, limit: number): Promise<PlanCopyRow[]> {
  return sql<PlanCopyRow[]>`
    ${selectCopies(sql)} where p.id > ${afterId} and ${stays(sql, 'a.account_id')} order by p.id limit ${limit}`
}

export async function listCopies(sql: Sql, ids: string[]): Promise<PlanCopyRow[]> {
  return sql<PlanCopyRow[]>`${selectCopies(sql)} where p.id = any(${ids}::text[]) order by p.id`
}

/** The versions of all plans of an application, as if nothing had changed. */
export async function listVersions(sql: Sql, applicationId: string): Promise<VersionChange[]> {
  return sql<VersionChange[]>`
    select id as "planId", version as "fromVersion", version, (select current_epoch()) as epoch, null as value
    from plans where application_id = ${applicationId} order by id`
}

/** A plan's version before and after a change of a definition. */
export interface VersionChange {
  planId: string
  fromVersion: bigint
  version: bigint
  epoch: bigint
  /** The plan's own value of the definition; null if it has the default. */
  value: string | null
}

/** A version that a plan never had before, even in a time that the database has lost. */
export const nextVersion = (sql: Sql) => sql`greatest(version + 1, (select current_epoch()))`

/** Gives all plans a new version, after a change of a definition or of the application, under the application's lock. */
export async function incrementVersions(
  sql: Sql,
  applicationId: string,
  definitionId: string | null,
): Promise<VersionChange[]> {
  return sql<VersionChange[]>`
    with before as materialized (select id, version from plans where application_id = ${applicationId})
    update plans p set version = greatest(p.version + 1, (select current_epoch())) from before where before.id = p.id
    returning p.id as "planId", before.version as "fromVersion", p.version, (select current_epoch()) as epoch, (
      select value from plan_overrides o where o.plan_id = p.id and o.definition_id = ${definitionId}
    ) as value`
}
