import { DATABASE_SERVICES } from '@licensing/local-servers/services'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Databases } from './databases.ts'

const mostRows = 50_000

/** Writes every table of every service into the folder, a file of JSON each: what a violation is explained from. */
export async function dump({ of }: Databases, folder: string): Promise<void> {
  for (const service of DATABASE_SERVICES) {
    const sql = of[service]
    const tables = await sql<{ name: string }[]>`
      select relname as name from pg_class
      where relnamespace = 'public'::regnamespace and relkind in ('r', 'p') and not relispartition`
    for (const { name } of tables) {
      const rows = await sql<{ row: unknown }[]>`
        select to_jsonb(of_table) as row from ${sql(name)} of_table limit ${mostRows}`
      const lines = rows.map(({ row }) => JSON.stringify(row)).join('\n')
      await writeFile(join(folder, `${service}.${name}.jsonl`), lines)
    }
  }
}
