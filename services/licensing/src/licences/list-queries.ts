import type { Sql, Statement } from '@licensing/database/connect'
import { licenceColumns } from '../lifecycle/licence-queries.ts'
import type { LicenceRow } from '../lifecycle/licence-row.ts'
import { readMachineName } from '@licensing/proto/host-name'
import type { Metadata } from '@licensing/proto/metadata'
import { createHash } from 'node:crypto'

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
  /** Entries that the licence's metadata has. */
  metadata?: Metadata | undefined
  trial?: boolean | undefined
}

export interface FoundLicences {
  rows: LicenceRow[]
  /** Set if the page ended early: `rows` has every match that is not older than this licence. */
  lookedUntil?: string
}

/** A page looks at this many licences at most, which takes about 20 ms. */
const usualMost = 5_000

/** An index in list order, and the part of it that one filter selects. */
interface Source {
  table: string
  column: 'id' | 'licence_id'
  conditions: Statement
}

/**
 * A page of at most `limit` licences before `beforeId`, newest first. One filter selects licences by its index, and the others
 * are conditions on these licences. If few licences match all filters, the page ends early, after `most` licences.
 */
export async function findLicencePage(
  sql: Sql,
  filter: LicenceFilter,
  most = usualMost,
): Promise<FoundLicences> {
  const { table, column, conditions } = await sourceOf(sql, filter)
  const { accountId, applicationId, beforeId, limit } = filter
  const before = beforeId === '' ? sql`` : sql`and ${sql(column)} < ${beforeId}`
  const looked = (part: Statement) => sql`
    select ${sql(column)} as id from ${sql(table)} where ${conditions} ${before} order by ${sql(column)} desc ${part}`
  const own = sql`l.application_id = ${applicationId} and l.account_id = ${accountId}`
  // `offset 0` makes PostgreSQL check one licence after the other, and stop when the page is full.
  const rows = await sql<LicenceRow[]>`
    select ${licenceColumns(sql)}
    from (${looked(sql`limit ${most}`)}) looked
    cross join lateral (
      select * from licences l where l.id = looked.id and ${own} ${conditionsOf(sql, filter)} offset 0
    ) l
    order by looked.id desc limit ${limit}`
  if (rows.length === limit) return { rows }
  const [last] = await sql<{ id: string }[]>`
    select l.id from (${looked(sql`offset ${most - 1} limit 1`)}) last join licences l on l.id = last.id where ${own}`
  return { rows, ...(last && { lookedUntil: last.id }) }
}

/** The index of the first filter that is set, the most selective first. */
async function sourceOf(sql: Sql, filter: LicenceFilter): Promise<Source> {
  const { applicationId, status, planId, domain, externalRef, seenSince, neverSeen, trial } = filter
  const own = sql`application_id = ${applicationId}`
  const of = (conditions: Statement): Source => ({ table: 'licences', column: 'id', conditions })
  const from = (table: string, conditions: Statement): Source => ({ table, column: 'licence_id', conditions })
  const entry = await rarestEntry(sql, filter)
  if (entry) return from('licence_metadata', sql`entry = ${entry}`)
  if (externalRef !== undefined) return of(sql`${own} and external_ref = ${externalRef}`)
  if (domain !== undefined) return from('licence_hosts', sql`${own} and host = ${readMachineName(domain)}`)
  // All licences of a plan are of one application. Its index does not contain the application.
  if (planId !== undefined && status === undefined) return of(sql`plan_id = ${planId}`)
  if (status !== undefined) {
    const within = planId === undefined ? own : sql`plan_id = ${planId}`
    return from('licence_statuses', sql`${within} and status = ${status}`)
  }
  if (neverSeen) return of(sql`${own} and not seen`)
  if (trial === true) return of(sql`${own} and trial`)
  if (seenSince !== undefined) return from('licence_activity', own)
  return of(own)
}

/** The pair of metadata with the fewest licences, as far as a page looks. */
async function rarestEntry(
  sql: Sql,
  { applicationId, metadata = {} }: LicenceFilter,
): Promise<Buffer | undefined> {
  // Computed as in `metadata_entry()`.
  const entries = Object.entries(metadata).map(([name, value]) =>
    createHash('sha256').update(`${applicationId} ${name} ${value}`).digest(),
  )
  if (entries.length < 2) return entries[0]
  const counts = entries.map(
    (entry) => sql`
      select count(*) from (select from licence_metadata where entry = ${entry} limit ${usualMost}) of_pair`,
  )
  const [row] = await sql<{ counts: bigint[] }[]>`
    select array[${counts.reduce((all, one, at) => (at === 0 ? sql`(${one})` : sql`${all}, (${one})`), sql``)}] as counts`
  return entries.reduce((rarest, entry) =>
    row!.counts[entries.indexOf(entry)]! < row!.counts[entries.indexOf(rarest)]! ? entry : rarest,
  )
}

/** The conditions of all filters on a licence `l`. */
function conditionsOf(sql: Sql, filter: LicenceFilter): Statement {
  const { status, planId, domain, externalRef, seenSince, neverSeen, trial, metadata = {} } = filter
  const conditions: Statement[] = []
  if (status !== undefined) conditions.push(sql`l.status = ${status}`)
  if (planId !== undefined) conditions.push(sql`l.plan_id = ${planId}`)
  if (externalRef !== undefined) conditions.push(sql`l.external_ref = ${externalRef}`)
  if (neverSeen) conditions.push(sql`not l.seen`)
  if (trial !== undefined) conditions.push(sql`l.trial = ${trial}`)
  if (Object.keys(metadata).length > 0) {
    conditions.push(sql`l.metadata @> ${JSON.stringify(metadata)}::text::jsonb`)
  }
  if (domain !== undefined) {
    conditions.push(sql`
      exists (select from licence_hosts h
        where h.application_id = l.application_id and h.host = ${readMachineName(domain)} and h.licence_id = l.id)`)
  }
  if (seenSince !== undefined) {
    conditions.push(sql`
      exists (select from licence_activity a where a.licence_id = l.id and a.last_seen_at >= ${seenSince})`)
  }
  return conditions.reduce((all, one) => sql`${all} and ${one}`, sql``)
}
