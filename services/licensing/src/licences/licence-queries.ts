import type { Sql } from '@licensing/database/connect'
import { licenceColumns } from './licence-row.ts'
import type { LicenceRow } from './licence-row.ts'

/** A licence as its account, or a key bound to one application, sees it. */
export interface LicenceScope {
  accountId: string
  licenceId: string
  onlyApplicationId?: string | undefined
}

export const inScope = (sql: Sql, { accountId, licenceId, onlyApplicationId }: LicenceScope) => sql`
  l.id = ${licenceId} and l.account_id = ${accountId}
  ${onlyApplicationId === undefined ? sql`` : sql`and l.application_id = ${onlyApplicationId}`}`

export async function findLicence(
  sql: Sql,
  scope: LicenceScope,
): Promise<(LicenceRow & { plan_status: 'active' | 'retired' }) | undefined> {
  const [row] = await sql<(LicenceRow & { plan_status: 'active' | 'retired' })[]>`
    select ${licenceColumns(sql)}, p.status as plan_status
    from licences l join plans p on p.id = l.plan_id
    where ${inScope(sql, scope)}`
  return row
}

/** Locks the plan that the licence is on, shared, so that no archive can pass. */
export async function lockPlanOf(
  sql: Sql,
  scope: LicenceScope,
): Promise<{ id: string; status: 'active' | 'retired' } | undefined> {
  const [row] = await sql<{ id: string; status: 'active' | 'retired' }[]>`
    select p.id, p.status from licences l join plans p on p.id = l.plan_id
    where ${inScope(sql, scope)} for share of p`
  return row
}
