import type { Sql, Statement } from '@licensing/database/connect'

/** Rows as one parameter of a statement, however many they are; each value has the type of the table's column. */
export function rowsOf(sql: Sql, table: string, rows: readonly object[]): Statement {
  const text = JSON.stringify(rows, (_, value: unknown) =>
    typeof value === 'bigint' ? String(value) : value,
  )
  return sql`jsonb_populate_recordset(null::${sql(table)}, ${text}::text::jsonb)`
}

/**
 * Adds rows, if there are any. Columns that they do not name keep their defaults.
 *
 * @param onConflict what to do with rows that are there already; without it they are an error
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
