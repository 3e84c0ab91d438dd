import { startPostgres, type PostgresServer } from '@licensing/local-servers/postgres'
import { makeTemporaryFolder } from './temporary-folder.ts'

/**
 * Starts a PostgreSQL for one test, which can stop, kill and restart it. A start takes about a second. Disposing removes its
 * data. Tests that need only a database use `createTestDatabase`.
 */
export async function startOwnPostgres(): Promise<PostgresServer> {
  const folder = await makeTemporaryFolder()
  const server = await startPostgres({ dataDir: folder.path, durable: false })
  return Object.defineProperty(server, Symbol.asyncDispose, {
    value: async () => {
      await server.stop()
      await folder[Symbol.asyncDispose]()
    },
  })
}
