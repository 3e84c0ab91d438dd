import type postgres from 'postgres'

// These tables change without a request, because each start of a relay begins an epoch.
const changeByThemselves = ['event_log_state', 'event_log_epochs']

/**
 * All rows of all tables as text, to show that a call changed nothing.
 *
 * @param except other tables that change by themselves
 */
export async function contentsOf(
  sql: postgres.Sql,
  except: string[] = [],
): Promise<Record<string, string[]>> {
  const tables = await sql<{ name: string }[]>`
    select tablename as name from pg_tables where schemaname = 'public' and tablename <> all(${[...changeByThemselves, ...except]}) order by tablename`
  const contents: Record<string, string[]> = {}
  for (const { name } of tables) {
    const rows = await sql<{ row: string }[]>`select t::text as row from ${sql(name)} t order by row`
    contents[name] = rows.map(({ row }) => row)
  }
  return contents
}
