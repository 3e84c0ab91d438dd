import type { Sql, Statement } from '@licensing/database/connect'
import type { SearchMatch } from '@licensing/proto/closed-sets'
import { licenceColumns } from '../lifecycle/licence-queries.ts'
import type { LicenceRow } from '../lifecycle/licence-row.ts'

export interface SearchScope {
  accountId: string
  applicationId: string
}

export interface Match {
  id: string
  matched: SearchMatch
}

const own = (sql: Sql, { accountId, applicationId }: SearchScope) =>
  sql`l.application_id = ${applicationId} and l.account_id = ${accountId}`

/** The search text as each kind of identifier; undefined if it cannot be one. */
export interface ExactTerms {
  text: string
  licenceId?: string | undefined
  licenceKey?: string | undefined
  activationId?: string | undefined
  /** In lower case. */
  host: string
}

/** Licences by identifiers that are unique. */
export async function findExactly(sql: Sql, scope: SearchScope, terms: ExactTerms): Promise<Match[]> {
  const by = (matched: SearchMatch, condition: Statement) => sql`
    select l.id, ${matched}::text as matched from licences l where ${condition} and ${own(sql, scope)}`
  const parts: Statement[] = [by('legacy_key', sql`l.legacy_key = ${terms.text}`)]
  if (terms.licenceId !== undefined) parts.push(by('id', sql`l.id = ${terms.licenceId}`))
  if (terms.licenceKey !== undefined) parts.push(by('key', sql`l.key = ${terms.licenceKey}`))
  if (terms.activationId !== undefined) {
    parts.push(
      by('activation_id', sql`l.id = (select licence_id from activations where id = ${terms.activationId})`),
    )
  }
  return sql<Match[]>`${parts.reduce((all, part) => sql`${all} union all ${part}`)}`
}

/**
 * The newest licences that have an activation on a host or are restricted to it. A licence with many activations on the
 * host is read once.
 */
export async function findByHost(
  sql: Sql,
  { accountId, applicationId }: SearchScope,
  host: string,
  limit: number,
): Promise<Match[]> {
  const newest = (before: Statement) => sql`
    select max(a.licence_id) as licence_id from activations a
    where a.application_id = ${applicationId} and a.host = ${host} ${before}`
  return sql<Match[]>`
    with recursive running as (
      (${newest(sql``)})
      union all
      select (${newest(sql`and a.licence_id < r.licence_id`)}) from running r where r.licence_id is not null
    ),
    candidate as (
      (select licence_id from running where licence_id is not null limit ${limit})
      union
      (select licence_id from licence_domains
      where application_id = ${applicationId} and domain = ${host} order by licence_id desc limit ${limit})
    )
    select l.id, 'host' as matched from candidate c join licences l on l.id = c.licence_id
    where l.account_id = ${accountId} order by l.id desc limit ${limit}`
}

const folded = (sql: Sql, text: Statement) => sql`(upper(${text} collate "und-x-icu") collate "C")`

/** The newest licences with a customer reference, ignoring letter case. */
export async function findByReference(
  sql: Sql,
  scope: SearchScope,
  reference: string,
  limit: number,
): Promise<Match[]> {
  return sql<Match[]>`
    select l.id, 'external_ref' as matched from licences l
    where ${own(sql, scope)} and ${folded(sql, sql`l.external_ref`)} = ${folded(sql, sql`${reference}`)}
    order by l.id desc limit ${limit}`
}

// Up to this many matches are sorted by age. If there are more, the newest licences are searched first.
const sortedAtOnce = 1_000
const scannedLicences = 20_000

/**
 * The newest licences whose customer reference begins with a text and is longer, ignoring letter case.
 *
 * The index has references in alphabetical order, but the result is ordered by age. If few references match, all of them
 * are sorted. If many match, some are usually among the newest licences. If not (all matches were imported years ago), all
 * matches are sorted.
 */
export async function findByBeginning(
  sql: Sql,
  scope: SearchScope,
  beginning: string,
  limit: number,
): Promise<Match[]> {
  const few = await sql<{ id: string }[]>`
    select l.id from licences l where ${beginsWith(sql, scope, beginning)}
    order by ${folded(sql, sql`l.external_ref`)} limit ${sortedAtOnce + 1}`
  if (few.length <= sortedAtOnce) return newest(few, limit)
  const recent = await sql<{ id: string }[]>`
    select l.id from (
      select id, application_id, account_id, external_ref from licences
      where application_id = ${scope.applicationId} order by id desc limit ${scannedLicences}
    ) l
    where ${beginsWith(sql, scope, beginning)} order by l.id desc limit ${limit}`
  if (recent.length === limit) return newest(recent, limit)
  // Materialized, because the planner could read all licences of the application in the order of age instead.
  const all = await sql<{ id: string }[]>`
    with beginning as materialized (select l.id from licences l where ${beginsWith(sql, scope, beginning)})
    select id from beginning order by id desc limit ${limit}`
  return newest(all, limit)
}

/** A range of the index: from the text to the text followed by the greatest code point, repeated. */
const beginsWith = (sql: Sql, scope: SearchScope, beginning: string) => sql`
  ${own(sql, scope)}
  and ${folded(sql, sql`l.external_ref`)} > ${folded(sql, sql`${beginning}`)}
  and ${folded(sql, sql`l.external_ref`)} < ${folded(sql, sql`${beginning}`)} || repeat(chr(1114111), 1024)`

function newest(rows: { id: string }[], limit: number): Match[] {
  return rows
    .map(({ id }): Match => ({ id, matched: 'external_ref' }))
    .sort((a, b) => (a.id < b.id ? 1 : -1))
    .slice(0, limit)
}

/** Licences of the application by their ids. */
export async function findAll(sql: Sql, scope: SearchScope, ids: string[]): Promise<Map<string, LicenceRow>> {
  const rows = await sql<LicenceRow[]>`
    select ${licenceColumns(sql)} from licences l where l.id = any(${ids}::text[]) and ${own(sql, scope)}`
  return new Map(rows.map((row) => [row.id, row]))
}
