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
  const { applicationId, beforeId, domain, seenSince } = filter
  const before = (id: Fragment) => (beforeId === '' ? sql`` : sql`and ${id} < ${beforeId}`)
  const own = ownConditions(sql, filter)
  const parts: Fragment[] = []
  if (own.length > 0 || (domain === undefined && seenSince === undefined)) {
    const [first = sql`application_id = ${applicationId}`, ...others] = own
    const all = others.reduce((left, right) => sql`${left} and ${right}`, first)
    parts.push(sql`(select id from licences where ${all} ${before(sql`id`)}) own`)
  }
  if (domain !== undefined) {
    parts.push(sql`(
      select licence_id as id from licence_hosts
      where application_id = ${applicationId} and host = ${domain.toLowerCase()} ${before(sql`licence_id`)}
    ) hosts`)
  }
  if (seenSince !== undefined) {
    parts.push(sql`(
      select licence_id as id from licence_activity
      where application_id = ${applicationId} and last_seen_at >= ${seenSince} ${before(sql`licence_id`)}
    ) activity`)
  }
  return parts.reduce((all, part) => sql`${all} join ${part} using (id)`)
}

/** What is asked of a licence's own columns. */
function ownConditions(sql: Sql, filter: LicenceFilter): Fragment[] {
  const { applicationId, status, planId, externalRef, neverSeen } = filter
  const conditions: Fragment[] = []
  if (status !== undefined) conditions.push(sql`status = ${status}`)
  if (planId !== undefined) conditions.push(sql`plan_id = ${planId}`)
  if (externalRef !== undefined) conditions.push(sql`external_ref = ${externalRef}`)
  if (neverSeen) conditions.push(sql`not seen`)
  // The indexes of plans begin without the application; with it, rows would be read to look at it.
  const ofPlan = planId !== undefined && externalRef === undefined && !neverSeen
  return conditions.length === 0 || ofPlan
    ? conditions
    : [sql`application_id = ${applicationId}`, ...conditions]
}
