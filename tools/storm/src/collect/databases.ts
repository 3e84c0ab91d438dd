import type { DatabaseService } from '@licensing/local-servers/services'
import { DATABASE_SERVICES } from '@licensing/local-servers/services'
import postgres from 'postgres'
import type { StormStack } from '../stack/storm-stack.ts'

/** Whole numbers of the databases are numbers here. */
export type StormSql = postgres.Sql<{ bigint: number }>

/** Connections past all proxies, one a service. */
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
