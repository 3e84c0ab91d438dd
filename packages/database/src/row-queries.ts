import type { Sql, Statement } from './connect.ts'

/** Passes any number of rows as one parameter of a statement. Each value gets the type of the table's column. */
export function rowsOf(sql: Sql, table: string, rows: readonly object[]): Statement {
  const text = JSON.stringify(rows, (_, value: unknown) =>
    typeof value === 'bigint' ? String(value) : value,
  )
  return sql`jsonb_populate_recordset(null::${sql(table)}, ${text}::text::jsonb)`
}

/**
 * Sorts the rows that a statement found for requests into the order of the requests; undefined for a request without a row.
 * `place` is the request's number from `with ordinality`, which counts from 1.
 */
export function inOrderOf<Row extends { place: number }>(
  requests: readonly unknown[],
  rows: readonly Row[],
): (Row | undefined)[] {
  const byPlace = new Map(rows.map((row) => [row.place, row]))
  return requests.map((_, at) => byPlace.get(at + 1))
}

/**
 * Inserts rows, if there are any. Columns that the rows do not have get their defaults.
 *
 * @param onConflict what to do with rows that exist; without it they are an error
 */
export async function insertRows(
  sql: Sql,
  table: string,
  rows: readonly object[],
  onConflict: Statement = sql``,
): Promise<void> {
  const [first] = rows
  if (!first) return
  const columns = sql(Object.keys(first))
  await sql`
    insert into ${sql(table)} (${columns}) select ${columns} from ${rowsOf(sql, table, rows)} ${onConflict}`
}
