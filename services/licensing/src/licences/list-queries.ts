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
  /** Whether the page may end before it is full, if very few licences match all filters. */
  mayEndEarly: boolean
}

export interface FoundLicences {
  rows: LicenceRow[]
  /** Set if the page ended early: `rows` has every match that is not older than this licence. */
  lookedUntil?: string
}

/** The licences that match one filter, from a table that has an index for it in list order. */
interface Part {
  table: string
  column: 'id' | 'licence_id'
  conditions: Statement
  pair?: Pair
}

/** A pair of metadata. */
interface Pair {
  entry: Buffer
  /** Whether a licence may have the other pairs, by the bits in the index. */
  hasOthers: Statement
}

/**
 * How many licences of the rarest filter a page reads before it ends early, in growing steps, so that a page that is soon
 * full is cheap. All steps together take about 20 ms per filter.
 */
const defaultStepSizes: readonly number[] = [400, 1_600, 11_500]

/**
 * A page of at most `limit` licences before `beforeId`, newest first. With several filters it reads stretch by stretch. The
 * planner would assume that filters are independent and the page is soon full: if no licence matches all filters, it would
 * read the whole of a large part.
 */
export async function findLicencePage(
  sql: Sql,
  filter: LicenceFilter,
  stepSizes = defaultStepSizes,
): Promise<FoundLicences> {
  const parts = partsOf(sql, filter)
  if (parts.length === 1) return { rows: await readPage(sql, filter, among(sql, parts[0]!, filter)) }
  const rows: LicenceRow[] = []
  let { beforeId } = filter
  for (let step = 0; step < stepSizes.length || !filter.mayEndEarly; step += 1) {
    const page = { ...filter, beforeId, limit: filter.limit - rows.length }
    const count = stepSizes[step] ?? stepSizes.at(-1)!
    const read = step === 0 && parts.some(({ pair }) => pair) ? readPairs : readRarest
    const found = await read(sql, page, parts, count)
    rows.push(...found.rows)
    if (rows.length === filter.limit || found.from === '') return { rows }
    beforeId = found.from
  }
  // An id of another account must not be returned, not even as a position.
  const [last] = await readPage(sql, filter, sql`select ${beforeId}::text as id`)
  return { rows, ...(last && { lookedUntil: beforeId }) }
}

/**
 * The filters as parts. All licences of an application have one account, and all licences of a plan one application.
 */
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
  const add = (table: string, conditions: Statement) =>
    parts.push({ table, column: table === 'licences' ? 'id' : 'licence_id', conditions })
  const own = sql`application_id = ${applicationId}`
  if (status !== undefined) {
    add(
      'licence_statuses',
      sql`${planId === undefined ? own : sql`plan_id = ${planId}`} and status = ${status}`,
    )
  } else if (planId !== undefined) {
    // Without a condition on the application: the index of plans does not contain it, so PostgreSQL would read every
    // row.
    add('licences', sql`plan_id = ${planId}`)
  }
  if (domain !== undefined) add('licence_hosts', sql`${own} and host = ${readMachineName(domain)}`)
  if (seenSince !== undefined) add('licence_activity', sql`${own} and last_seen_at >= ${seenSince}`)
  if (externalRef !== undefined) add('licences', sql`${own} and external_ref = ${externalRef}`)
  if (neverSeen) add('licences', sql`${own} and not seen`)
  if (trial !== undefined) add('licences', sql`${own} and trial = ${trial}`)
  parts.push(...metadataParts(sql, applicationId, metadata))
  if (parts.length === 0) add('licences', own)
  return parts
}

/** A part for each pair of metadata. */
function metadataParts(sql: Sql, applicationId: string, metadata: Metadata): Part[] {
  // Computed as in `metadata_entry()` and its trigger. In the statement, this took a fifth of the time of a page.
  const entries = Object.entries(metadata).map(([name, value]) =>
    createHash('sha256').update(`${applicationId} ${name} ${value}`).digest(),
  )
  const bits = entries.reduce((all, entry) => all | (1n << BigInt(entry[0]! % 64)), 0n)
  const mask = sql`${BigInt.asIntN(64, bits)}::bigint`
  // A first selection: most licences without the other entries do not have their bits.
  const hasOthers = entries.length > 1 ? sql`bits & ${mask} = ${mask}` : sql`true`
  return entries.map((entry) => ({
    table: 'licence_metadata',
    column: 'licence_id',
    conditions: sql`entry = ${entry}`,
    pair: { entry, hasOthers },
  }))
}

interface Stretch {
  rows: LicenceRow[]
  /** The last licence of the stretch; empty if there are no more. */
  from: string
}

/**
 * The licences that are in all parts, in a stretch of `count` licences of the rarest pair of metadata. It stops reading when
 * the page is full: if that is soon, or if the pair has few licences, this takes little longer than one filter.
 */
async function readPairs(sql: Sql, filter: LicenceFilter, parts: Part[], count: number): Promise<Stretch> {
  const { accountId, applicationId, beforeId, metadata = {}, limit } = filter
  const pairs = parts.flatMap(({ pair }) => pair ?? [])
  const others = parts.filter(({ pair }) => !pair)
  const isColumn = ({ table }: Part) => table === 'licences' || table === 'licence_statuses'
  const columns = others.filter(isColumn).map(({ conditions }) => sql`and ${conditions}`)
  const lookedUp = areIn(
    sql,
    others.filter((part) => !isColumn(part)),
    sql`stretch.licence_id`,
  )
  const isInAll = sql`
    part.may_match and l.metadata @> ${JSON.stringify(metadata)}::text::jsonb ${joined(sql, columns)}`
  // The result contains the last licence of the stretch even if it does not match, because the next stretch begins there.
  const rows = await sql<(LicenceRow & { position: number; is_in_all: boolean })[]>`
    select ${licenceColumns(sql)}, part.position, ${isInAll} as is_in_all
    from (
      select licence_id, position, ${pairs[0]!.hasOthers} ${lookedUp} as may_match
      from (
        select licence_id, bits, row_number() over (order by licence_id desc)::int as position from licence_metadata
        where entry = ${rarestEntry(sql, pairs, beforeId)} ${before(sql, 'licence_id', beforeId)}
        order by licence_id desc limit ${count}
      ) stretch
      order by licence_id desc offset 0
    ) part
    join licences l on l.id = part.licence_id
    where l.application_id = ${applicationId} and l.account_id = ${accountId}
      and (part.position = ${count} or (${isInAll}))
    order by part.licence_id desc limit ${limit}`
  return {
    rows: rows.filter((row) => row.is_in_all).map(({ position: _position, is_in_all: _isIn, ...row }) => row),
    from: rows.find(({ position }) => position === count)?.id ?? '',
  }
}

// Reading this many licences is enough to see that a pair has few.
const probed = 100

/** The entry whose next licences extend furthest back. */
function rarestEntry(sql: Sql, pairs: Pair[], beforeId: string): Statement {
  const [first, ...others] = pairs.map(({ entry }) => sql`(${entry}::bytea)`)
  if (others.length === 0) return first!
  return sql`(
    select entry from (values ${others.reduce((all, one) => sql`${all}, ${one}`, first!)}) pair (entry)
    order by (
      select licence_id from licence_metadata m where m.entry = pair.entry ${before(sql, 'licence_id', beforeId)}
      order by licence_id desc offset ${probed - 1} limit 1
    ) nulls first
    limit 1
  )`
}

/**
 * The licences that are in all parts, in a stretch of `count` licences of the rarest part. Each of them is looked up in the
 * other parts.
 */
async function readRarest(sql: Sql, filter: LicenceFilter, parts: Part[], count: number): Promise<Stretch> {
  const { rarest, from } = await nextStretch(sql, parts, filter.beforeId, count)
  const others = parts.filter((part) => part !== rarest)
  return { rows: await readPage(sql, filter, among(sql, rarest, filter, { from, others })), from }
}

/** The part whose next `count` licences extend furthest back, and the last of these; empty if the part has fewer. */
async function nextStretch(
  sql: Sql,
  parts: Part[],
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
  { table, column, conditions, pair }: Part,
  { beforeId, limit }: Pick<LicenceFilter, 'beforeId' | 'limit'>,
  within: { from: string; others: Part[] } = { from: '', others: [] },
): Statement {
  return sql`
    select part.${sql(column)} as id from ${sql(table)} part
    where ${conditions} ${before(sql, column, beforeId)}
      ${within.from === '' ? sql`` : sql`and ${sql(column)} >= ${within.from}`} ${pair ? sql`and ${pair.hasOthers}` : sql``}
      ${areIn(sql, within.others, sql`part.${sql(column)}`)}
    order by part.${sql(column)} desc limit ${limit}`
}

/** `offset 0` makes the planner look them up one by one. */
function areIn(sql: Sql, parts: Part[], id: Statement): Statement {
  const lookups = parts.map(
    ({ table, column, conditions }) => sql`
    and exists (select from ${sql(table)} other where other.${sql(column)} = ${id} and ${conditions} offset 0)`,
  )
  return joined(sql, lookups)
}

const joined = (sql: Sql, fragments: Statement[]): Statement =>
  fragments.reduce((all, one) => sql`${all} ${one}`, sql``)

const before = (sql: Sql, column: string, id: string) => (id === '' ? sql`` : sql`and ${sql(column)} < ${id}`)

async function readPage(sql: Sql, filter: LicenceFilter, ids: Statement): Promise<LicenceRow[]> {
  const { accountId, applicationId } = filter
  return sql<LicenceRow[]>`
    select ${licenceColumns(sql)}
    from (${ids}) page
    join licences l on l.id = page.id
    where l.application_id = ${applicationId} and l.account_id = ${accountId}
    order by l.id desc`
}
