import type { Sql, Statement } from '@licensing/database/connect'
import { insertRows } from '@licensing/database/row-queries'

export interface AuditRow {
  id: string
  account_id: string
  application_id: string | null
  actor: string
  operation: string
  resource_id: string
  /** JSON. */
  changes: string
  request_id: string | null
}

/** Inserts entries, except those that were inserted before. */
export async function insertEntries(sql: Sql, rows: AuditRow[]): Promise<void> {
  await insertRows(sql, 'audit_log', rows, sql`on conflict (id) do nothing`)
}

export interface AuditFilter {
  accountId: string
  actor?: string | undefined
  operation?: string | undefined
  applicationId?: string | undefined
  /** Entries with this id or a greater one. */
  fromId: string
  beforeId: string
  limit: number
}

export type ListedEntry = Omit<AuditRow, 'account_id'>

export interface FoundEntries {
  rows: ListedEntry[]
  /** More entries match, but their changes are too large for this page. */
  isCut: boolean
  /** Set if the page ended early: `rows` has every match that is not older than this entry. */
  lookedUntil?: string
}

/** A page looks at this many entries at most. */
const most = 5_000
// An entry can have more than 100 KiB, if it shows the metadata of a plan.
const maxBytes = 1024 * 1024

/**
 * At most `limit` entries before `beforeId`, newest first. One filter selects entries by its index, and the others are conditions
 * on these entries. If few entries match all filters, the page ends early, after 5,000 entries.
 */
export async function findEntryPage(
  sql: Sql,
  { accountId, actor, operation, applicationId, fromId, beforeId, limit }: AuditFilter,
): Promise<FoundEntries> {
  const conditions: Statement[] = []
  if (actor !== undefined) conditions.push(sql`and actor = ${actor}`)
  if (operation !== undefined) conditions.push(sql`and operation = ${operation}`)
  if (applicationId !== undefined) conditions.push(sql`and application_id = ${applicationId}`)
  const [indexed = sql``, ...others] = conditions
  const looked = (columns: Statement, part: Statement) => sql`
    select ${columns} from audit_log
    where account_id = ${accountId} ${indexed} and id >= ${fromId} and id < ${beforeId} order by id desc ${part}`
  const columns = sql`id, application_id, actor, operation, resource_id, changes, request_id`
  const rows = await sql<(ListedEntry & { found: number })[]>`
    with found as (
      select ${columns} from (${looked(columns, sql`limit ${most}`)}) looked
      where true ${others.reduce((all, one) => sql`${all} ${one}`, sql``)} order by id desc limit ${limit}
    ), sized as (
      select ${columns}, count(*) over ()::int as found,
        sum(octet_length(changes)) over (order by id desc) - octet_length(changes) as bytes_before
      from found
    )
    select ${columns}, found from sized where bytes_before < ${maxBytes} order by id desc`
  const found = rows[0]?.found ?? 0
  if (rows.length < found || found === limit) return { rows, isCut: rows.length < found }
  const [last] = await sql<{ id: string }[]>`${looked(sql`id`, sql`offset ${most - 1} limit 1`)}`
  return { rows, isCut: false, ...(last && { lookedUntil: last.id }) }
}

/** Deletes at most `limit` entries that are older than an id. @returns how many */
export async function deleteEntriesBefore(sql: Sql, id: string, limit: number): Promise<number> {
  const { count } = await sql`
    delete from audit_log where id = any(array(
      select id from audit_log where id < ${id} order by id limit ${limit}
    ))`
  return count
}
