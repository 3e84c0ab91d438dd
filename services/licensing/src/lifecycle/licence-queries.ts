import type { Sql } from '@licensing/database/connect'
import type { LicenceStatus, PlanStatus } from '@licensing/proto/closed-sets'
import type { LicenceRow } from './licence-row.ts'
import type { Standing } from './licence.ts'

const columns: Record<keyof LicenceRow, true> = {
  id: true,
  key: true,
  account_id: true,
  application_id: true,
  plan_id: true,
  status: true,
  status_reason: true,
  external_ref: true,
  domains: true,
  max_activations: true,
  max_seats: true,
  expires_on: true,
  created_at: true,
  updated_at: true,
}
const columnList = Object.keys(columns)
  .map((name) => `l.${name}`)
  .join(', ')

/** The columns of a LicenceRow, from the table or query named `l`. */
export const licenceColumns = (sql: Sql) => sql`${sql.unsafe(columnList)}`

/** The id of a licence, with the account, and the application if the API key is bound to one. */
export interface LicenceScope {
  accountId: string
  licenceId: string
  onlyApplicationId?: string | undefined
}

export const inScope = (sql: Sql, { accountId, licenceId, onlyApplicationId }: LicenceScope) => sql`
  l.id = ${licenceId} and l.account_id = ${accountId}
  ${onlyApplicationId === undefined ? sql`` : sql`and l.application_id = ${onlyApplicationId}`}`

/**
 * The condition that a licence, or its row in `licence_statuses`, has one of these statuses. They are literals as in the
 * partial indexes: with parameters PostgreSQL could not use those indexes.
 */
export const statusIn = (sql: Sql, statuses: readonly LicenceStatus[]) => sql`
  status in (${sql.unsafe(statuses.map((status) => `'${status}'`).join(', '))})`

/** A licence with the columns on which transitions depend. */
export type StandingRow = LicenceRow & Standing

export const standingColumns = (sql: Sql) =>
  sql`${licenceColumns(sql)}, l.expired_from, l.expired_from_reason`

export type FoundLicence = StandingRow & { plan_status: PlanStatus }

export async function findLicence(sql: Sql, scope: LicenceScope): Promise<FoundLicence | undefined> {
  const [row] = await sql<FoundLicence[]>`
    select ${standingColumns(sql)}, p.status as plan_status
    from licences l join plans p on p.id = l.plan_id
    where ${inScope(sql, scope)}`
  return row
}

/** Selects a licence if it has one of these statuses and, if `planId` is given, that plan. */
export const licenceToChange = (
  sql: Sql,
  scope: LicenceScope,
  { from, planId }: { from: readonly LicenceStatus[]; planId: string | undefined },
) => sql`
  select l.id, l.status, l.status_reason from licences l
  where ${inScope(sql, scope)} and ${statusIn(sql, from)}
    ${planId === undefined ? sql`` : sql`and l.plan_id = ${planId}`}
  for update`

/** Locks the licence's plan shared, so that it cannot be archived meanwhile. */
export async function lockPlanOf(
  sql: Sql,
  scope: LicenceScope,
): Promise<{ id: string; status: PlanStatus } | undefined> {
  const [row] = await sql<{ id: string; status: PlanStatus }[]>`
    select p.id, p.status from licences l join plans p on p.id = l.plan_id
    where ${inScope(sql, scope)} for share of p`
  return row
}
