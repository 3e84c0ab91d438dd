import type postgres from 'postgres'
import { CHECKOUT } from '@licensing/local-servers/services'
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

/** What a person reads in the database, and no query. */
const forPeople = ['created_at', 'booked_at', 'opened_at']

/**
 * The tables of a service's database, and the columns as `table.column`, that none of its queries names, nor one of a
 * package or of the database's functions. Columns of keys are in use. A partition is one table with its parent. One of a common name passes where a file names it
 * and its table.
 */
export async function unusedInDatabase(
  service: string,
  read: (statement: string) => Promise<readonly postgres.Row[]>,
): Promise<string[]> {
  const columns = (await read(`
    select table_name, column_name from information_schema.columns where table_schema = 'public'
      and table_name not in (select relname from pg_class where relispartition)
    except select table_name, column_name from information_schema.key_column_usage`)) as {
    table_name: string
    column_name: string
  }[]
  const functions = (await read(
    `select prosrc as text from pg_proc where pronamespace = 'public'::regnamespace`,
  )) as { text: string }[]
  const sources = [
    ...functions.map((each) => each.text),
    ...sourcesIn([`services/${service}/src/**/*.ts`, 'packages/*/src/**/*.ts']),
  ].map((text) => new Set(text.match(/\w+/g)))
  const unused = columns.flatMap(({ table_name: table, column_name: column }) => {
    const beside = sources.filter((words) => words.has(table))
    if (beside.length === 0) return [table]
    const isUsed = forPeople.includes(column) || beside.some((words) => words.has(column))
    return isUsed ? [] : [`${table}.${column}`]
  })
  return [...new Set(unused)].toSorted()
}

function sourcesIn(patterns: string[]): string[] {
  return globSync(patterns, { cwd: CHECKOUT })
    .filter((file) => !/\/testing\/|\.test\.ts$/.test(file))
    .map((file) => readFileSync(join(CHECKOUT, file), 'utf8'))
}
