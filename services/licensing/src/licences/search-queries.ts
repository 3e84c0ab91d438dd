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

// A search looks at this many rows of an index at most.
const most = 5_000

/** The newest licences that have an activation on a host or are restricted to it. */
export async function findByHost(
  sql: Sql,
  scope: SearchScope,
  host: string,
  limit: number,
): Promise<Match[]> {
  const newest = (table: string) => sql`
    select licence_id from ${sql(table)}
    where application_id = ${scope.applicationId} and host = ${host} order by licence_id desc limit ${most}`
  return sql<Match[]>`
    select l.id, 'host' as matched
    from ((${newest('activations')}) union (${newest('licence_hosts')})) c join licences l on l.id = c.licence_id
    where ${own(sql, scope)} and (${host} = any(l.domains) or exists (
      select from activations a
      where a.application_id = l.application_id and a.host = ${host} and a.licence_id = l.id))
    order by l.id desc limit ${limit}`
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

/**
 * The newest licences whose customer reference begins with a text and is longer, ignoring letter case.
 *
 * The index has references in alphabetical order, but the result is ordered by age. If more references match than are looked
 * at, matches among the newest licences come first.
 */
export async function findByBeginning(
  sql: Sql,
  scope: SearchScope,
  beginning: string,
  limit: number,
): Promise<Match[]> {
  const ids = (rows: { id: string }[]) => rows.map(({ id }) => id)
  const first = await sql<{ id: string }[]>`
    select l.id from licences l where ${beginsWith(sql, scope, beginning)}
    order by ${folded(sql, sql`l.external_ref`)} limit ${most}`
  if (first.length < most) return newest(ids(first), limit)
  const recent = await sql<{ id: string }[]>`
    select l.id from (
      select id, application_id, account_id, external_ref from licences
      where application_id = ${scope.applicationId} order by id desc limit ${most}
    ) l
    where ${beginsWith(sql, scope, beginning)} order by l.id desc limit ${limit}`
  return newest([...new Set([...ids(recent), ...ids(first)])], limit)
}

/** A range of the index: from the text to the text followed by the greatest code point, repeated. */
const beginsWith = (sql: Sql, scope: SearchScope, beginning: string) => sql`
  ${own(sql, scope)}
  and ${folded(sql, sql`l.external_ref`)} > ${folded(sql, sql`${beginning}`)}
  and ${folded(sql, sql`l.external_ref`)} < ${folded(sql, sql`${beginning}`)} || repeat(chr(1114111), 1024)`

function newest(ids: string[], limit: number): Match[] {
  const sorted = ids.toSorted((a, b) => (a < b ? 1 : -1))
  return sorted.slice(0, limit).map((id) => ({ id, matched: 'external_ref' }))
}

/** Licences of the application by their ids. */
export async function findAll(sql: Sql, scope: SearchScope, ids: string[]): Promise<Map<string, LicenceRow>> {
  const rows = await sql<LicenceRow[]>`
    select ${licenceColumns(sql)} from licences l where l.id = any(${ids}::text[]) and ${own(sql, scope)}`
  return new Map(rows.map((row) => [row.id, row]))
}
