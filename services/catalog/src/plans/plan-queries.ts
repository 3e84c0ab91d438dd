import type { Sql } from '@licensing/database/connect'
import type { PageRequest } from '@licensing/database/page'
import { rowsFor } from '@licensing/database/page'
import { insertRows, rowsOf } from '@licensing/database/row-queries'
import type { PlanVerb } from '@licensing/proto/closed-sets'
import { nextVersion } from '../plan-copies/plan-copy-queries.ts'
import { transitions } from './plan.ts'
import type { PlanRow } from './plan.ts'
import { planFields } from './plan-fields.ts'
import type { FieldColumns } from './plan-fields.ts'

const listOf = (columns: string[], table: string) => columns.map((name) => `${table}.${name}`).join(', ')
const ownColumns = ['id', 'application_id', 'status', 'status_version', 'created_at', 'updated_at']
const fieldColumns = planFields.columns.join(', ')

const selectPlans = (sql: Sql) => sql`
  select ${sql.unsafe(listOf([...ownColumns, ...planFields.columns], 'p'))},
    coalesce(
      (
        select json_agg(json_build_array(o.definition_id, o.value) order by d.key)
        from plan_overrides o join entitlement_definitions d on d.id = o.definition_id
        where o.plan_id = p.id
      ), '[]') as overrides
  from plans p join applications a on a.id = p.application_id`

/** Violates the constraint `plans_code` if the code is in use. */
export async function insertPlan(
  sql: Sql,
  { id, applicationId }: { id: string; applicationId: string },
  fields: FieldColumns,
): Promise<void> {
  await insertRows(sql, 'plans', [{ id, application_id: applicationId, ...fields }])
}

/** Includes retired plans. */
export async function countPlans(sql: Sql, applicationId: string): Promise<number> {
  const [row] = await sql<{ count: number }[]>`
    select count(*)::int as count from plans where application_id = ${applicationId}`
  return row!.count
}

export async function findPlan(
  sql: Sql,
  accountId: string,
  applicationId: string,
  id: string,
): Promise<PlanRow | undefined> {
  const [row] = await sql<PlanRow[]>`
    ${selectPlans(sql)}
    where p.id = ${id} and p.application_id = ${applicationId} and a.account_id = ${accountId}`
  return row
}

export async function listPlanRows(
  sql: Sql,
  accountId: string,
  applicationId: string,
  page: PageRequest & { status?: string | undefined },
): Promise<PlanRow[]> {
  return sql<PlanRow[]>`
    ${selectPlans(sql)}
    where p.application_id = ${applicationId} and a.account_id = ${accountId}
      ${page.status === undefined ? sql`` : sql`and p.status = ${page.status}`}
      ${page.beforeId === '' ? sql`` : sql`and p.id < ${page.beforeId}`}
    order by p.id desc limit ${rowsFor(page.limit)}`
}

/**
 * Writes the fields if they differ. Violates the constraint `plans_code` if the code is in use.
 *
 * @param isChanged whether the overrides of the plan have changed
 */
export async function updatePlanRow(
  sql: Sql,
  id: string,
  fields: FieldColumns,
  isChanged: boolean,
): Promise<void> {
  const [held, given] = ['p', 'g'].map((table) => sql.unsafe(listOf(planFields.columns, table)))
  await sql`
    update plans p set (${sql.unsafe(fieldColumns)}) = row(${given!}), updated_at = now()
    from ${rowsOf(sql, 'plans', [fields])} g
    where p.id = ${id} and (${isChanged} or (${held!}) is distinct from (${given!}))`
}

/** Gives the plan a new version, after a change of a value that licensing copies. */
export async function incrementVersion(sql: Sql, id: string): Promise<void> {
  await sql`update plans set version = ${nextVersion(sql)} where id = ${id}`
}

/** Replaces all overrides of the plan. */
export async function replaceOverrides(
  sql: Sql,
  plan: { id: string; applicationId: string },
  overrides: { definitionId: string; value: string }[],
): Promise<void> {
  await sql`delete from plan_overrides where plan_id = ${plan.id}`
  const rows = overrides.map(({ definitionId: definition_id, value }) => {
    return { plan_id: plan.id, application_id: plan.applicationId, definition_id, value }
  })
  await insertRows(sql, 'plan_overrides', rows)
}

/** How long licensing may take to suspend the licences of a plan, which may have several hundred thousand. */
export const archiveMs = 50_000
// Longer than the call to licensing.
const confirmationMs = archiveMs + 10_000

/** Archives or restores a plan, if its status allows the verb. @returns whether the status was changed */
export async function changeStatus(sql: Sql, id: string, verb: PlanVerb, actor: string): Promise<boolean> {
  const { from, to } = transitions[verb]
  const archives = verb === 'archive'
  const changed = await sql`
    update plans set status = ${to}, version = ${nextVersion(sql)}, status_version = ${nextVersion(sql)}, updated_at = now(),
      archive_version = case when ${archives} then ${nextVersion(sql)} else archive_version end,
      archived_by = case when ${archives} then ${actor} else archived_by end,
      unconfirmed_until = clock_timestamp() + ${confirmationMs}::int * interval '1 millisecond'
    where id = ${id} and status = ${from}`
  return changed.count === 1
}

/**
 * Claims a change of status that an earlier call saved and licensing did not confirm. One caller at a time gets it.
 *
 * @returns whether there was such a change
 */
export async function claimUnconfirmed(sql: Sql, id: string, verb: PlanVerb): Promise<boolean> {
  const claimed = await sql`
    update plans set unconfirmed_until = clock_timestamp() + ${confirmationMs}::int * interval '1 millisecond'
    where id = ${id} and status = ${transitions[verb].to} and unconfirmed_until < clock_timestamp()`
  return claimed.count === 1
}

/** Records that licensing has applied the change of status made at this version. */
export async function confirmStatus(sql: Sql, id: string, statusVersion: bigint): Promise<void> {
  await sql`
    update plans set unconfirmed_until = null
    where id = ${id} and status_version = ${statusVersion} and unconfirmed_until is not null`
}

/**
 * Records that licensing has not confirmed the change of status made at this version: another call may claim it now.
 */
export async function releaseStatus(sql: Sql, id: string, statusVersion: bigint): Promise<void> {
  await sql`
    update plans set unconfirmed_until = clock_timestamp()
    where id = ${id} and status_version = ${statusVersion} and unconfirmed_until is not null`
}
