import type { Sql, Statement } from '@licensing/database/connect'
import { inOrderOf, rowsOf } from '@licensing/database/row-queries'
import type { RowOf } from '@licensing/grpc/fields'
import type { PlanCopySchema } from '@licensing/proto/catalog'
import type { PlanStatus } from '@licensing/proto/closed-sets'
import { statusIn } from '../lifecycle/licence-queries.ts'
import { bulkChanges } from '../lifecycle/licence.ts'
import type { Selection } from '../lifecycle/licence-queries.ts'
import type { SnapshotEntitlement } from './snapshot.ts'

export interface PlanRow {
  id: string
  account_id: string
  application_id: string
  status: PlanStatus
  snapshot_id: string
}

/** A copy as a row. It has fields that are no columns of `plans`. */
export type NewPlanCopy = Omit<RowOf<typeof PlanCopySchema>, 'entitlements'> & {
  entitlements: SnapshotEntitlement[]
}

/** Stores the copies of a later epoch, or of a higher version in the same epoch, than the stored one, and locks these plans. @returns their ids */
export async function upsertPlans(sql: Sql, plans: NewPlanCopy[]): Promise<Set<string>> {
  const rows = await sql<{ id: string }[]>`
    insert into plans (id, account_id, application_id, status, epoch, version, code, trial_days, expiring_notice_days,
      snapshot_id, entitlements)
    select id, account_id, application_id, status, epoch, version, code, trial_days, expiring_notice_days,
      snapshot_id_of(entitlements), entitlements
    from ${rowsOf(sql, 'plans', plans)} plan order by id
    on conflict (id) do update set
      status = excluded.status, epoch = excluded.epoch, version = excluded.version, code = excluded.code,
      trial_days = excluded.trial_days, expiring_notice_days = excluded.expiring_notice_days,
      notice_raised_at = ${noticeRaisedAt(sql, sql`plans`, sql`excluded.expiring_notice_days`)},
      snapshot_id = excluded.snapshot_id,
      entitlements = excluded.entitlements
      where (plans.epoch, plans.version) < (excluded.epoch, excluded.version)
    returning id`
  return new Set(rows.map((row) => row.id))
}

/** A change of a definition in the plans of an application. */
export interface DefinitionChange extends Omit<SnapshotEntitlement, 'value'> {
  deleted: boolean
}

/**
 * Changes definitions in the copies that have the version from before the changes. PostgreSQL changes the entitlements in
 * place: of 1,000 plans with 500 entitlements each it would take seconds to send them.
 */
export async function changeDefinitions(
  sql: Sql,
  of: { accountId: string; applicationId: string; epoch: bigint; expiringNoticeDays?: number | undefined },
  definitions: DefinitionChange[],
  plans: { planId: string; fromVersion: bigint; version: bigint; values: Record<string, string> }[],
): Promise<void> {
  const changed = definitions.reduce(
    (before, { key, kind, default: fallback, deleted }) => {
      const value = sql`coalesce(own ->> ${key}, ${fallback})`
      const entitlement = sql`jsonb_build_object('key', ${key}::text, 'kind', ${kind}::text, 'value', ${value}, 'default', ${fallback}::text)`
      return sql`with_definition(${before}, ${entitlement}, ${deleted})`
    },
    sql`entitlements`,
  )
  const columns = { id: 'text', from_version: 'bigint', version: 'bigint', own: 'jsonb' } as const
  const rows = plans.map(({ planId: id, fromVersion: from_version, version, values: own }) => {
    return { id, from_version, version, own }
  })
  const noticeDays = sql`${of.expiringNoticeDays ?? null}::int`
  await sql`
    with locked as materialized (
      select p.id, p.entitlements, given.version, given.own
      from plans p join ${rowsOf(sql, columns, rows)} given on given.id = p.id
      where p.account_id = ${of.accountId} and p.application_id = ${of.applicationId}
        and p.epoch = ${of.epoch} and p.version = given.from_version
      order by p.id for update of p
    ), changed as materialized (select id, version, ${changed} as entitlements from locked)
    update plans p set version = changed.version, entitlements = changed.entitlements,
      snapshot_id = snapshot_id_of(changed.entitlements),
      expiring_notice_days = coalesce(${noticeDays}, p.expiring_notice_days),
      notice_raised_at = ${noticeRaisedAt(sql, sql`p`, noticeDays)}
    from changed where p.id = changed.id`
}

/** When the notice of a plan was last raised, after it is set to `days`: licences within the longer notice get it then. */
const noticeRaisedAt = (sql: Sql, plan: Statement, days: Statement) =>
  sql`case when ${days} > ${plan}.expiring_notice_days then now() else ${plan}.notice_raised_at end`

/** Which of these plans have no copy of this version or a later one. */
export async function findOutdated(
  sql: Sql,
  epoch: bigint,
  plans: { planId: string; version: bigint }[],
): Promise<string[]> {
  const given = plans.map(({ planId: id, version }) => ({ id, version }))
  const rows = await sql<{ id: string }[]>`
    select given.id from ${rowsOf(sql, { id: 'text', version: 'bigint' }, given)} given
    where not exists (
      select from plans p where p.id = given.id and (p.epoch, p.version) >= (${epoch}::bigint, given.version)
    )`
  return rows.map((row) => row.id)
}

/** @returns false if this archive was applied before */
export async function insertArchive(sql: Sql, planId: string, archiveVersion: bigint): Promise<boolean> {
  const inserted = await sql`
    insert into plan_archives (plan_id, archive_version, suspended) values (${planId}, ${archiveVersion}, 0)
    on conflict do nothing`
  return inserted.count === 1
}

/** The next licences of a plan that an archive suspends, in the order of their ids. */
export const licencesToSuspend = (
  sql: Sql,
  { id: planId, archivedBy }: { id: string; archivedBy: string },
  afterId: string,
  limit: number,
): Selection => {
  const { from } = bulkChanges.plan_archived
  return sql`
    select l.id, l.status, ${archivedBy || 'catalog'}::text as actor
    from (
      select licence_id from licence_statuses
      where plan_id = ${planId} and ${statusIn(sql, from)} and licence_id > ${afterId}
      order by licence_id offset 0
    ) s cross join lateral (
      select id, status from licences
      where id = s.licence_id and plan_id = ${planId} and ${statusIn(sql, from)} for update
    ) l limit ${limit}`
}

/** The order in which an archive locks licences. */
export const suspensionOrder = (sql: Sql) => sql`l.id`

export async function recordSuspended(
  sql: Sql,
  planId: string,
  archiveVersion: bigint,
  suspended: number,
): Promise<void> {
  await sql`
    update plan_archives set suspended = suspended + ${suspended}
    where plan_id = ${planId} and archive_version = ${archiveVersion}`
}

export async function findSuspended(sql: Sql, planId: string, archiveVersion: bigint): Promise<bigint> {
  const [row] = await sql<{ suspended: bigint }[]>`
    select suspended from plan_archives where plan_id = ${planId} and archive_version = ${archiveVersion}`
  return row?.suspended ?? 0n
}

/** The newest epoch of catalog of which there is a copy. */
export async function findNewestEpoch(sql: Sql): Promise<bigint> {
  const [row] = await sql<{ epoch: bigint }[]>`select coalesce(max(epoch), 0) as epoch from plans`
  return row!.epoch
}

/** Retires the plans that catalog lost before this epoch: nothing is issued on them. Their licences stay as they are. */
export async function retireLostPlans(sql: Sql, epoch: bigint): Promise<number> {
  const retired =
    await sql`update plans set status = 'retired' where epoch < ${epoch} and status <> 'retired'`
  return retired.count
}

export async function findPlans(
  sql: Sql,
  { accountId, applicationId }: { accountId: string; applicationId: string },
  ids: string[],
): Promise<PlanRow[]> {
  return sql<PlanRow[]>`
    select id, account_id, application_id, status, snapshot_id from plans
    where id = any(${ids}::text[]) and application_id = ${applicationId} and account_id = ${accountId}`
}

/**
 * The ids of plans by their codes, in the order of the request. If the codes of two plans were exchanged, both may have
 * the same code for a moment: the plan whose copy is up to date is used.
 */
export async function findPlansOfCodes(
  sql: Sql,
  asked: { applicationId: string; code: string }[],
): Promise<(string | undefined)[]> {
  const given = asked.map(({ applicationId: application_id, code }) => ({ application_id, code }))
  const rows = await sql<{ ordinality: bigint; id: string }[]>`
    select asked.ordinality, plan.id
    from ${rowsOf(sql, { application_id: 'text', code: 'text' }, given)} asked
    cross join lateral (
      select p.id from plans p left join awaited_plans awaited on awaited.plan_id = p.id
      where p.application_id = asked.application_id and p.code = asked.code
      order by awaited.plan_id is not null, p.id desc limit 1
    ) plan`
  return inOrderOf(asked, rows).map((row) => row?.id)
}

/** The plans in this list that have a copy. */
export async function findKnownPlans(sql: Sql, ids: string[]): Promise<Set<string>> {
  const rows = await sql<{ id: string }[]>`select id from plans where id = any(${ids}::text[])`
  return new Set(rows.map((row) => row.id))
}

export async function countActive(sql: Sql, planIds: string[]): Promise<Map<string, bigint>> {
  const rows = await sql<{ plan_id: string; active: bigint }[]>`
    select plan_id, sum(active)::bigint as active from plan_counts
    where plan_id = any(${planIds}::text[]) group by plan_id`
  return new Map(rows.map((row) => [row.plan_id, row.active]))
}
