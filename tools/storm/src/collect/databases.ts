import postgres from 'postgres'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { DATABASE_SERVICES, type DatabaseService } from '@licensing/local-servers/services'
import type { StormStack } from '../stack/storm-stack.ts'

/** A connection that returns bigint columns as numbers. */
export type StormSql = postgres.Sql<{ bigint: number }>

/** Direct connections without a proxy, one for each service. */
export interface Databases extends AsyncDisposable {
  of: Record<DatabaseService, StormSql>
}

export function openDatabases(stack: StormStack): Databases {
  const of = Object.fromEntries(
    DATABASE_SERVICES.map((service) => [
      service,
      postgres(stack.databaseUrls[service], {
        max: 1,
        onnotice: () => undefined,
        types: { bigint: { to: 20, from: [20, 1700], parse: Number, serialize: String } },
      }),
    ]),
  ) as Record<DatabaseService, StormSql>
  return {
    of,
    [Symbol.asyncDispose]: async () => {
      await Promise.all(Object.values(of).map((sql) => sql.end({ timeout: 5 })))
    },
  }
}

const maxRows = 50_000

/** Writes each table of each service into the folder as a JSON file, to find the cause of a violation. */
export async function dump({ of }: Databases, folder: string): Promise<void> {
  for (const service of DATABASE_SERVICES) {
    const sql = of[service]
    const tables = await sql<{ name: string }[]>`
      select relname as name from pg_class
      where relnamespace = 'public'::regnamespace and relkind in ('r', 'p') and not relispartition`
    for (const { name } of tables) {
      const rows = await sql<{ row: unknown }[]>`
        select to_jsonb(of_table) as row from ${sql(name)} of_table limit ${maxRows}`
      const lines = rows.map(({ row }) => JSON.stringify(row)).join('\n')
      await writeFile(join(folder, `${service}.${name}.jsonl`), lines)
    }
  }
}
