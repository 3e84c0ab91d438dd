import { startPostgres, type PostgresServer } from '@licensing/local-servers/postgres'
import { makeTemporaryFolder } from './temporary-folder.ts'

/**
 * A PostgreSQL for one test that stops, kills or restarts it. Up in about a second; disposing of it removes its
 * data. Tests that need only a database take `createTestDatabase`.
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
