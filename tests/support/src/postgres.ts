import { restoreBaseBackup, takeBaseBackup } from '@licensing/local-servers/base-backup'
import { startPostgres, type PostgresServer } from '@licensing/local-servers/postgres'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { makeTemporaryFolder } from './temporary-folder.ts'

/**
 * Starts a PostgreSQL for one test, which can stop, kill and restart it. A start takes about a second. Disposing removes its
 * data. Tests that need only a database use `createTestDatabase`.
 */
export async function startOwnPostgres(): Promise<PostgresServer> {
  return startIn(await makeTemporaryFolder(), {})
}

/** Starts a hot standby that replicates a server. `select pg_promote()` makes it accept writes. */
export async function startStandby(primary: PostgresServer): Promise<PostgresServer> {
  const folder = await makeTemporaryFolder()
  const backup = join(folder.path, 'base.tar.gz')
  const { port, password } = new URL(primary.url())
  await takeBaseBackup(primary.url(), backup)
  await restoreBaseBackup(backup, folder.path, password)
  await writeFile(join(folder.path, 'cluster/standby.signal'), '')
  const source = `host=127.0.0.1 port=${port} user=postgres password=${password} application_name=standby`
  return startIn(folder, { primary_conninfo: source })
}

async function startIn(
  folder: Awaited<ReturnType<typeof makeTemporaryFolder>>,
  settings: Record<string, string>,
): Promise<PostgresServer> {
  const server = await startPostgres({ dataDir: folder.path, durable: false, settings })
  return Object.defineProperty(server, Symbol.asyncDispose, {
    value: async () => {
      await server.stop()
      await folder[Symbol.asyncDispose]()
    },
  })
}
