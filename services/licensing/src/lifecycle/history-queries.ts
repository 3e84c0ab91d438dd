import type { Sql } from '@licensing/database/connect'
import { rowsOf } from '@licensing/database/row-queries'
import type { HistoryType, LicenceStatus } from '@licensing/proto/closed-sets'
import { inScope } from './licence-queries.ts'
import type { LicenceScope } from './licence-queries.ts'

export interface HistoryRow {
  position: bigint
  at: Date
  type: HistoryType
  from_status: LicenceStatus | null
  to_status: LicenceStatus
  actor: string
  cause: string | null
  changes: FieldChanges | null
}

/** The changes in an entry of type `changed`: fields and values as in REST. */
export type FieldChanges = Record<string, { from: unknown; to: unknown }>

/** A page of a licence's history, newest first; undefined if there is no such licence. */
export async function findHistory(
  sql: Sql,
  scope: LicenceScope,
  beforePosition: bigint,
  limit: number,
): Promise<HistoryRow[] | undefined> {
  // A left join, so that an existing licence returns a row even if the page is empty.
  const rows = await sql<(HistoryRow | { position: null })[]>`
    select h.position, h.at, h.type, h.from_status, h.to_status, h.actor, h.cause, h.changes
    from licences l left join lateral (
      select position, at, type, from_status, to_status, actor, cause, changes from licence_history
      where licence_id = l.id ${beforePosition > 0n ? sql`and position < ${beforePosition}` : sql``}
      order by position desc limit ${limit}
    ) h on true
    where ${inScope(sql, scope)}
    order by h.position desc`
  if (rows.length === 0) return undefined
  return rows.filter((row) => row.position !== null)
}

export interface NewHistory {
  licenceId: string
  type: HistoryType
  from?: LicenceStatus
  to: LicenceStatus
  actor: string
  cause?: string | undefined
  changes?: FieldChanges
  /** Default: now. */
  at?: Date
}

export async function insertHistory(sql: Sql, entries: NewHistory[]): Promise<void> {
  const rows = entries.map(({ licenceId: licence_id, from: from_status, to: to_status, ...entry }) => {
    return { licence_id, from_status, to_status, ...entry }
  })
  await sql`
    insert into licence_history (licence_id, at, type, from_status, to_status, actor, cause, changes)
    select licence_id, coalesce(at, now()), type, from_status, to_status, actor, cause, changes
    from ${rowsOf(sql, 'licence_history', rows)} entry order by ordinality`
}
