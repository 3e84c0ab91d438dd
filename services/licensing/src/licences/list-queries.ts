import type { Sql } from '@licensing/database/connect'
import { licenceColumns } from '../lifecycle/licence-queries.ts'
import type { LicenceRow } from '../lifecycle/licence-row.ts'
import type { Metadata } from '@licensing/proto/metadata'

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
  /** Whether the page may end before it is full, if very few licences match all filters. */
  mayEndEarly: boolean
}

export interface FoundLicences {
  rows: LicenceRow[]
  /** Set if the page ended early: `rows` has every match that is not older than this licence. */
  lookedUntil?: string
}

type Fragment = ReturnType<typeof licenceColumns>

/** The licences that match one filter, from a table that has an index for it in list order. */
interface Part {
  table: string
  column: 'id' | 'licence_id'
  conditions: Fragment
}

/**
 * How many licences of the rarest filter a page reads before it ends early, in growing steps, so that a page that is soon
 * full is cheap. All steps together take about 20 ms per filter.
 */
const stretches: readonly number[] = [500, 3_000, 10_000]

/**
 * A page of at most `limit` licences before `beforeId`, newest first. It finds their ids first, mostly with index-only
 * scans, and then reads only these rows. Every page costs the same.
 */
export async function findLicences(
  sql: Sql,
  filter: LicenceFilter,
  lookThrough = stretches,
): Promise<FoundLicences> {
  const [first, ...others] = partsOf(sql, filter)
  if (others.length === 0) return { rows: await readPage(sql, filter, among(sql, first!, filter)) }
  const { ids, lookedUntil } = await findInAll(sql, filter, [first!, ...others], lookThrough)
  if (lookedUntil === undefined) return { rows: await readPage(sql, filter, listed(sql, ids)) }
  const rows = await readPage(sql, filter, listed(sql, [...new Set(ids).add(lookedUntil)]))
  // An id of another account must not be returned, not even as a position.
  const isOwn = rows.some(({ id }) => id === lookedUntil)
  return { rows: rows.filter(({ id }) => ids.includes(id)), ...(isOwn && { lookedUntil }) }
}

/** All licences of an application have one account, and all licences of a plan have one application. */
function partsOf(sql: Sql, filter: LicenceFilter): Part[] {
  const {
    applicationId,
    status,
    planId,
    domain,
    externalRef,
    seenSince,
    neverSeen,
    trial,
    metadata = {},
  } = filter
  const parts: Part[] = []
  const add = (table: string, conditions: Fragment) =>
    parts.push({ table, column: table === 'licences' ? 'id' : 'licence_id', conditions })
  const own = sql`application_id = ${applicationId}`
  if (status !== undefined) {
    add(
      'licence_statuses',
      sql`${planId === undefined ? own : sql`plan_id = ${planId}`} and status = ${status}`,
    )
  } else if (planId !== undefined) {
    // Without the application: the index of plans does not contain it, so every row would be read.
    add('licences', sql`plan_id = ${planId}`)
  }
  if (domain !== undefined) add('licence_hosts', sql`${own} and host = ${domain.toLowerCase()}`)
  if (seenSince !== undefined) add('licence_activity', sql`${own} and last_seen_at >= ${seenSince}`)
  if (externalRef !== undefined) add('licences', sql`${own} and external_ref = ${externalRef}`)
  if (neverSeen) add('licences', sql`${own} and not seen`)
  if (trial !== undefined) add('licences', sql`${own} and trial = ${trial}`)
  for (const [name, value] of Object.entries(metadata)) {
    add('licence_metadata', sql`entry = metadata_entry(${applicationId}, ${name}, ${value})`)
  }
  if (parts.length === 0) add('licences', own)
  return parts
}

/**
 * The ids of the licences that are in all parts, stretch by stretch: it reads the part with the fewest licences in the
 * stretch, and looks up each of them in the other parts. The planner would assume that filters are independent and the page
 * is soon full: if no licence matches all filters, it would read the whole of a large part.
 */
async function findInAll(
  sql: Sql,
  filter: LicenceFilter,
  parts: [Part, ...Part[]],
  lookThrough: readonly number[],
): Promise<{ ids: string[]; lookedUntil?: string }> {
  const ids: string[] = []
  let { beforeId } = filter
  for (let turn = 0; turn < lookThrough.length || !filter.mayEndEarly; turn += 1) {
    const { rarest, from } = await nextStretch(sql, parts, beforeId, lookThrough[turn] ?? lookThrough.at(-1)!)
    const others = parts.filter((part) => part !== rarest)
    const limit = filter.limit - ids.length
    const found = await sql<{ id: string }[]>`${among(sql, rarest, { beforeId, limit }, { from, others })}`
    ids.push(...found.map(({ id }) => id))
    if (ids.length === filter.limit || from === '') return { ids }
    beforeId = from
  }
  return { ids, lookedUntil: beforeId }
}

/** The part whose next `count` licences extend furthest back, and the last of them; the end if it has fewer. */
async function nextStretch(
  sql: Sql,
  parts: [Part, ...Part[]],
  beforeId: string,
  count: number,
): Promise<{ rarest: Part; from: string }> {
  const ends = parts.map(
    ({ table, column, conditions }, at) => sql`
    select ${at}::int as at, coalesce((
      select ${sql(column)} from ${sql(table)} where ${conditions} ${before(sql, column, beforeId)}
      order by ${sql(column)} desc offset ${count - 1} limit 1
    ), '') as from_id`,
  )
  const [row] = await sql<{ at: number; from_id: string }[]>`
    ${ends.reduce((all, end) => sql`${all} union all ${end}`)} order by from_id, at limit 1`
  return { rarest: parts[row!.at]!, from: row!.from_id }
}

/** Ids from one part, newest first, of licences that are in all other parts too. */
function among(
  sql: Sql,
  { table, column, conditions }: Part,
  { beforeId, limit }: Pick<LicenceFilter, 'beforeId' | 'limit'>,
  within: { from: string; others: Part[] } = { from: '', others: [] },
): Fragment {
  // `offset 0`: the planner looks them up one by one.
  const inOthers = within.others.map(
    (other) => sql`
    and exists (
      select from ${sql(other.table)} other where other.${sql(other.column)} = part.${sql(column)} and ${other.conditions}
      offset 0
    )`,
  )
  return sql`
    select part.${sql(column)} as id from ${sql(table)} part
    where ${conditions} ${before(sql, column, beforeId)}
      ${within.from === '' ? sql`` : sql`and ${sql(column)} >= ${within.from}`}
      ${inOthers.reduce((all, one) => sql`${all} ${one}`, sql``)}
    order by part.${sql(column)} desc limit ${limit}`
}

const listed = (sql: Sql, ids: string[]) => sql`select id from unnest(${ids}::text[]) as id`

const before = (sql: Sql, column: string, id: string) => (id === '' ? sql`` : sql`and ${sql(column)} < ${id}`)

async function readPage(sql: Sql, filter: LicenceFilter, ids: Fragment): Promise<LicenceRow[]> {
  const { accountId, applicationId } = filter
  return sql<LicenceRow[]>`
    select ${licenceColumns(sql)}
    from (${ids}) page
    join licences l on l.id = page.id
    where l.application_id = ${applicationId} and l.account_id = ${accountId}
    order by l.id desc`
}
