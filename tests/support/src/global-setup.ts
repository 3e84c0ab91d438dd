import type { TestProject } from 'vitest/node'
import { startNats } from '@licensing/local-servers/nats'
import { startPostgres } from '@licensing/local-servers/postgres'
import { ensureBuilt } from '@licensing/portal/build'
import { join } from 'node:path'
import { makeBundles } from './bundles.ts'
import { makeTemporaryFolder, removeAbandonedFolders } from './temporary-folder.ts'

/** Projects that need neither server: their runs start without the half second. */
const WITHOUT_SERVERS = new Set(['proto', 'packages-process', 'sdk', 'portal', 'tools-stripe-simulator'])

/** Projects with tests in which the gateway serves the portal. */
const WITH_PORTAL = new Set(['tests-portal', 'tests-acceptance', 'tests-integration'])

/** Projects that start dozens of services: with TEST_BUNDLES they run bundles, else sources. */
const WITH_STACKS = new Set([
  'tests-acceptance',
  'tests-integration',
  'tests-portal',
  'tests-resilience',
  'tools-storm',
])

/**
 * One PostgreSQL and one NATS for the whole run: TEST_DATABASE_URL and TEST_NATS_URL, else embedded servers
 * that are stopped, and their data removed, when the run is over.
 */
export async function setup(root: TestProject): Promise<() => Promise<void>> {
  await using started = new AsyncDisposableStack()
  const needed = root.vitest.projects.some(({ name }) => !WITHOUT_SERVERS.has(name))
  const { TEST_DATABASE_URL: givenPostgres, TEST_NATS_URL: givenNats } = process.env
  const withPortal = root.vitest.projects.some(({ name }) => WITH_PORTAL.has(name))
  // Beside the servers' start; what fails is thrown when they are up.
  const portal = withPortal ? ensureBuilt((line) => process.stdout.write(`${line}\n`)) : undefined
  portal?.catch(() => undefined)
  await removeAbandonedFolders()
  const folder = started.use(await makeTemporaryFolder())
  const wantsBundles =
    process.env['TEST_BUNDLES'] && root.vitest.projects.some(({ name }) => WITH_STACKS.has(name))
  const bundles = join(folder.path, 'bundles')
  // The portal first: a bundle holds it.
  const bundled = wantsBundles ? Promise.resolve(portal).then(() => makeBundles(bundles)) : undefined
  bundled?.catch(() => undefined)
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
  await portal
  await bundled
  // The workers have it from this process.
  if (bundled) process.env['TEST_RELEASE'] = bundles
  const running = started.move()
  return async () => {
    await running.disposeAsync()
    await removeAbandonedFolders()
  }
}
