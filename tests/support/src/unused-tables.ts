import type postgres from 'postgres'
import { CHECKOUT } from '@licensing/local-servers/services'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

/** The tables of a service's database that none of its queries names, nor one of a package or of the database's functions. */
export async function unusedTables(
  service: string,
  read: (statement: string) => Promise<readonly postgres.Row[]>,
): Promise<string[]> {
  const tables = (await read(`select tablename as name from pg_tables where schemaname = 'public'`)) as {
    name: string
  }[]
  const functions = (await read(
    `select prosrc as text from pg_proc where pronamespace = 'public'::regnamespace`,
  )) as { text: string }[]
  const text = [
    ...functions.map((each) => each.text),
    ...sourcesIn(join(CHECKOUT, 'services', service, 'src')),
    ...sourcesIn(join(CHECKOUT, 'packages')),
  ].join('\n')
  return tables
    .map(({ name }) => name)
    .filter((name) => !new RegExp(`\\b${name}\\b`).test(text))
    .toSorted()
}

function sourcesIn(folder: string): string[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.ts') && !/(^|\/)(node_modules|testing)\/|\.test\.ts$/.test(file))
    .map((file) => readFileSync(join(folder, file), 'utf8'))
}
