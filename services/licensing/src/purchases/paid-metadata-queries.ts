import type { Sql } from '@licensing/database/connect'
import { insertRows, rowsOf } from '@licensing/database/row-queries'
import type { Bringing, PaidEntry } from './paid-metadata.ts'

/** The purchases of these licences that bring metadata and are ordered within these times. */
export async function findBringing(
  sql: Sql,
  ranges: { licence_id: string; from: Date; to: Date }[],
): Promise<(Bringing & { licence_id: string })[]> {
  if (ranges.length === 0) return []
  return sql<(Bringing & { licence_id: string })[]>`
    select p.licence_id, p.purchase_ref, p.ordered_at, p.metadata
    from ${rowsOf(sql, { licence_id: 'text', from: 'timestamptz', to: 'timestamptz' }, ranges)} range
    join purchases p on p.licence_id = range.licence_id and p.ordered_at between range."from" and range."to"
      and p.metadata <> '{}'`
}

/**
 * The entries of these licences that are among the first `limit`, and those with these names.
 */
export async function findPaidEntries(
  sql: Sql,
  wanted: { licence_id: string; names: string[]; limit: number }[],
): Promise<PaidEntry[]> {
  if (wanted.length === 0) return []
  return sql<PaidEntry[]>`
    select e.licence_id, e.name, e.value, e.first_ordered_at, e.first_ref, e.last_ordered_at, e.last_ref
    from ${rowsOf(sql, { licence_id: 'text', names: 'text[]', limit: 'int' }, wanted)} wanted
    cross join lateral (
      (select * from paid_metadata where licence_id = wanted.licence_id
        order by first_ordered_at, first_ref, name limit wanted."limit")
      union
      select * from paid_metadata where licence_id = wanted.licence_id and name = any(wanted.names)
    ) e`
}

export async function upsertPaidEntries(sql: Sql, entries: PaidEntry[]): Promise<void> {
  await insertRows(
    sql,
    'paid_metadata',
    entries,
    sql`on conflict (licence_id, name) do update set
      value = excluded.value, first_ordered_at = excluded.first_ordered_at, first_ref = excluded.first_ref,
      last_ordered_at = excluded.last_ordered_at, last_ref = excluded.last_ref`,
  )
}
