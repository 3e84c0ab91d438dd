import type { TestProject } from 'vitest/node'
import { startNats } from '@licensing/local-servers/nats'
import { startPostgres } from '@licensing/local-servers/postgres'
import { join } from 'node:path'
import { makeTemporaryFolder, removeAbandonedFolders } from './temporary-folder.ts'

/** Projects that need neither server: their runs start without the half second. */
const WITHOUT_SERVERS = new Set(['proto', 'packages-process', 'sdk', 'portal', 'packages-stripe-simulator'])

/**
 * One PostgreSQL and one NATS for the whole run: those of TEST_DATABASE_URL and TEST_NATS_URL, else embedded ones
 * that are stopped, and their data removed, when the run is over.
 */
export async function setup(root: TestProject): Promise<() => Promise<void>> {
  await using started = new AsyncDisposableStack()
  const needed = root.vitest.projects.some(({ name }) => !WITHOUT_SERVERS.has(name))
  const { TEST_DATABASE_URL: givenPostgres, TEST_NATS_URL: givenNats } = process.env
  await removeAbandonedFolders()
  const folder = started.use(await makeTemporaryFolder())
  if (givenPostgres !== undefined) root.provide('postgresUrl', givenPostgres)
  else if (needed) {
    const postgres = started.use(
      await startPostgres({ dataDir: join(folder.path, 'postgres'), durable: false }),
    )
    root.provide('postgresUrl', postgres.url())
  }
  if (givenNats !== undefined) root.provide('natsUrl', givenNats)
  else if (needed) {
    const nats = started.use(await startNats({ dataDir: join(folder.path, 'nats'), durable: false }))
    root.provide('natsUrl', nats.url)
  }
  const running = started.move()
  return () => running.disposeAsync()
}
