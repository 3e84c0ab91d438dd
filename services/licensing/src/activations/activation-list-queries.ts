import type { Sql } from '@licensing/database/connect'
import { rowsFor } from '@licensing/database/page'
import type { PageRequest } from '@licensing/database/page'
import { inScope } from '../lifecycle/licence-queries.ts'
import type { LicenceScope } from '../lifecycle/licence-queries.ts'

/** An activation as the vendor sees it. */
export interface ActivationRow {
  id: string
  fingerprint: string
  host: string
  product_version: string
  created_at: Date
  last_seen_at: Date
}

/** A page of a licence's activations, newest first, or undefined where there is no such licence. */
export async function listActivationRows(
  sql: Sql,
  scope: LicenceScope,
  page: PageRequest,
): Promise<ActivationRow[] | undefined> {
  const rows = await sql<(ActivationRow | { id: null })[]>`
    select a.id, a.fingerprint, a.host, a.product_version, a.created_at, a.last_seen_at
    from licences l left join lateral (
      select id, fingerprint, host, product_version, created_at, last_seen_at from activations
      where licence_id = l.id ${page.beforeId === '' ? sql`` : sql`and id < ${page.beforeId}`}
      order by id desc limit ${rowsFor(page.limit)}
    ) a on true
    where ${inScope(sql, scope)}
    order by a.id desc`
  if (rows.length === 0) return undefined
  return rows.filter((row) => row.id !== null)
}
