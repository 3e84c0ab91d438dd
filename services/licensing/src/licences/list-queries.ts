import type { Sql } from '@licensing/database/connect'
import { licenceColumns } from './licence-row.ts'
import type { LicenceRow } from './licence-row.ts'

export interface LicenceFilter {
  accountId: string
  applicationId: string
  beforeId: string
  limit: number
  status?: string | undefined
  planId?: string | undefined
  domain?: string | undefined
  externalRef?: string | undefined
  seenSince?: Date | undefined
  neverSeen: boolean
}

type Fragment = ReturnType<typeof licenceColumns>

/**
 * A page of licences, newest first: those before `beforeId`, at most `limit`. Their ids are found first, mostly from
 * indexes alone, and only the page's own rows are read.
 *
 * Each filter costs the same at every depth. Where several concern different tables, such as a domain and a status,
 * the planner chooses whose ids are run through in list order until the page is full: quick where a fair share of them
 * matches all, but all of the smaller set, or of both, where hardly any does.
 */
export async function findLicences(sql: Sql, filter: LicenceFilter): Promise<LicenceRow[]> {
  const { accountId, applicationId, limit } = filter
  return sql<LicenceRow[]>`
    select ${licenceColumns(sql)}
    from (select id from ${matching(sql, filter)} order by id desc limit ${limit}) page
    join licences l on l.id = page.id
    where l.application_id = ${applicationId} and l.account_id = ${accountId}
    order by l.id desc`
}

/** The ids of all that match. An application's licences are all of one account, a plan's of one application. */
function matching(sql: Sql, filter: LicenceFilter): Fragment {
  const { applicationId, beforeId, status, planId, domain, seenSince } = filter
  const ids = (table: string, column: string, conditions: Fragment) => sql`
    (select ${sql(column)} as id from ${sql(table)}
    where ${conditions} ${beforeId === '' ? sql`` : sql`and ${sql(column)} < ${beforeId}`}) ${sql(`of_${table}`)}`
  const parts: Fragment[] = []
  if (status !== undefined) {
    const among = planId === undefined ? sql`application_id = ${applicationId}` : sql`plan_id = ${planId}`
    parts.push(ids('licence_statuses', 'licence_id', sql`${among} and status = ${status}`))
  }
  if (domain !== undefined) {
    const host = sql`application_id = ${applicationId} and host = ${domain.toLowerCase()}`
    parts.push(ids('licence_hosts', 'licence_id', host))
  }
  if (seenSince !== undefined) {
    const seen = sql`application_id = ${applicationId} and last_seen_at >= ${seenSince}`
    parts.push(ids('licence_activity', 'licence_id', seen))
  }
  const own = ownConditions(sql, filter)
  if (own || parts.length === 0) {
    parts.push(ids('licences', 'id', own ?? sql`application_id = ${applicationId}`))
  }
  return parts.reduce((all, part) => sql`${all} join ${part} using (id)`)
}

/** What is asked of the columns of `licences`. */
function ownConditions(sql: Sql, filter: LicenceFilter): Fragment | undefined {
  const { applicationId, status, planId, externalRef, neverSeen } = filter
  const conditions: Fragment[] = []
  if (planId !== undefined && status === undefined) conditions.push(sql`plan_id = ${planId}`)
  if (externalRef !== undefined) conditions.push(sql`external_ref = ${externalRef}`)
  if (neverSeen) conditions.push(sql`not seen`)
  // The index of plans begins without the application; with it, rows would be read to look at it.
  if (externalRef !== undefined || neverSeen) conditions.unshift(sql`application_id = ${applicationId}`)
  return conditions.length === 0 ? undefined : conditions.reduce((left, right) => sql`${left} and ${right}`)
}
