import type postgres from 'postgres'
import { CHECKOUT } from '@licensing/local-servers/services'
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

/** Columns that only people read, and no query. */
const readByPeople = ['created_at', 'booked_at', 'opened_at']

/**
 * The tables and columns (`table.column`) of a service's database that are unused: no query of the service or of a package
 * and no function of the database names them. Columns of keys count as used. A partition counts as its parent table. A column
 * counts as used if a file names it and its table.
 *
 * @param listed columns that queries name by a list, such as the fields of a message
 */
export async function unusedInDatabase(
  service: string,
  read: (statement: string) => Promise<readonly postgres.Row[]>,
  listed: readonly string[] = [],
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
    const sourcesOfTable = sources.filter((words) => words.has(table))
    if (sourcesOfTable.length === 0) return [table]
    const isUsed =
      [...readByPeople, ...listed].includes(column) || sourcesOfTable.some((words) => words.has(column))
    return isUsed ? [] : [`${table}.${column}`]
  })
  return [...new Set(unused)].toSorted()
}

function sourcesIn(patterns: string[]): string[] {
  return globSync(patterns, { cwd: CHECKOUT })
    .filter((file) => !/\/testing\/|\.test\.ts$/.test(file))
    .map((file) => readFileSync(join(CHECKOUT, file), 'utf8'))
}
