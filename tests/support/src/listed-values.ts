import type postgres from 'postgres'

/** The values that checks, indexes and triggers of a database list, sorted, by the name of the check, index or trigger. */
type ListedValues = Record<string, string[]>

/**
 * Reads the values in the checks, partial indexes and triggers of a database, to compare them with the closed sets, which a
 * migration cannot import.
 *
 * @example expect(await listedValues((statement) => sql.unsafe(statement))).toEqual({ plans_status_check: ['active', …] })
 */
export async function listedValues(
  read: (statement: string) => Promise<readonly postgres.Row[]>,
): Promise<ListedValues> {
  const definitions = (await read(`
    select conname as name, pg_get_constraintdef(oid) as definition
    from pg_constraint where contype = 'c' and connamespace = 'public'::regnamespace
    union all
    select indexrelid::regclass::text, pg_get_expr(indpred, indrelid)
    from pg_index where indpred is not null and indrelid::regclass::text !~ '^pg_'
    union all
    select tgname, substring(pg_get_triggerdef(oid) from ' WHEN (.*) EXECUTE ')
    from pg_trigger where not tgisinternal and tgqual is not null
  `)) as { name: string; definition: string }[]
  const listed: ListedValues = {}
  for (const { name, definition } of definitions) {
    // Listed values are plain words. A text with other characters is a pattern.
    const values = [...definition.matchAll(/'([a-z_]+)'::text/g)].map(([, value]) => value!)
    if (values.length > 0) listed[name] = [...new Set(values)].sort()
  }
  return listed
}

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
