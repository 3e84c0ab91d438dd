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

// Up to so many licences seen since a time are sorted, from the index alone; more of them are so dense that the newest
// page is found by walking.
const fewSeen = 10_000

/**
 * A page of licences, newest first: those before `beforeId`, at most `limit`. With 1,000,000 licences each filter, and
 * each depth of it, takes 0.5 to 2 ms, `seenSince` 3 to 10; planned once for all values, a host of many licences
 * together with a rare status took 38.
 */
export async function findLicences(
  sql: Sql,
  filter: LicenceFilter,
  sortedAtMost = fewSeen,
): Promise<LicenceRow[]> {
  const { accountId, applicationId, beforeId, limit, seenSince } = filter
  const sorted = seenSince !== undefined && (await areFew(sql, applicationId, seenSince, sortedAtMost))
  return sql<LicenceRow[]>`
    select ${licenceColumns(sql)} from ${source(sql, filter, sorted)}
    where l.application_id = ${applicationId} and l.account_id = ${accountId}
      ${beforeId === '' ? sql`` : sql`and l.id < ${beforeId}`}
      ${filter.status === undefined ? sql`` : sql`and l.status = ${filter.status}`}
      ${filter.planId === undefined ? sql`` : sql`and l.plan_id = ${filter.planId}`}
      ${filter.externalRef === undefined ? sql`` : sql`and l.external_ref = ${filter.externalRef}`}
      ${filter.neverSeen ? sql`and not l.seen` : sql``}
    order by ${filter.domain === undefined ? sql`l.id` : sql`h.licence_id`} desc
    limit ${limit}`
}

/** What the page is read from. `l` is the licence. */
function source(sql: Sql, filter: LicenceFilter, sorted: boolean) {
  const { applicationId, beforeId, domain, seenSince } = filter
  const licences =
    domain === undefined
      ? sql`licences l`
      : sql`(
          select licence_id from licence_hosts
          where application_id = ${applicationId} and host = ${domain.toLowerCase()}
            ${beforeId === '' ? sql`` : sql`and licence_id < ${beforeId}`}
        ) h join licences l on l.id = h.licence_id`
  if (seenSince === undefined) return licences
  // `offset 0` keeps the planner from turning the order of the two round.
  return sorted
    ? sql`${licences} join (
        select licence_id from licence_activity
        where application_id = ${applicationId} and last_seen_at >= ${seenSince}
          ${beforeId === '' ? sql`` : sql`and licence_id < ${beforeId}`}
        offset 0
      ) a on a.licence_id = l.id`
    : sql`${licences} cross join lateral (
        select 1 from licence_activity where licence_id = l.id and last_seen_at >= ${seenSince} offset 0
      ) a`
}

async function areFew(sql: Sql, applicationId: string, seenSince: Date, most: number): Promise<boolean> {
  const [row] = await sql<{ few: boolean }[]>`
    select count(*) <= ${most} as few from (
      select 1 from licence_activity
      where application_id = ${applicationId} and last_seen_at >= ${seenSince} limit ${most + 1}
    ) seen`
  return row!.few
}
