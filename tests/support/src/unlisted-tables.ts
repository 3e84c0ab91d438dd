import type postgres from 'postgres'

/**
 * The tables of a service's database that are in no list: neither with the tables whose rows move with an account, nor with those of
 * the cell. A table in a list that does not exist counts too. A partition counts as its parent table.
 */
export async function unlistedTables(
  read: (statement: string) => Promise<readonly postgres.Row[]>,
  listed: Iterable<string>,
): Promise<string[]> {
  const rows = (await read(`
    select relname as name from pg_class
    where relkind in ('r', 'p') and not relispartition and relnamespace = 'public'::regnamespace
      and relname !~ '^events_[0-9]{8}$'`)) as { name: string }[]
  const found = new Set(rows.map(({ name }) => name))
  return [...found.symmetricDifference(new Set(['migrations', ...listed]))].toSorted()
}
