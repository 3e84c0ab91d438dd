import { ensureGuides } from '@licensing/guides/build'
import type { TestProject } from 'vitest/node'
import { startNats } from '@licensing/local-servers/nats'
import { startPostgres } from '@licensing/local-servers/postgres'
// By its path, because packages that the portal depends on are tested with this package.
import { ensureBuilt } from '../../../portal/build/ensure-built.ts'
import { join } from 'node:path'
import { makeBundles } from './bundles.ts'
import { makeTemporaryFolder, removeAbandonedFolders } from './temporary-folder.ts'

/** Projects that need no servers. A run of only these starts half a second faster. */
const WITHOUT_SERVERS = new Set([
  'proto',
  'packages-builds',
  'packages-process',
  'sdk-suite',
  'sdk-typescript',
  'portal',
  'tools-stripe-simulator',
])

/** Projects with tests that use the portal or the guides. */
const WITH_PAGES = new Set(['tests-portal', 'tests-acceptance', 'tests-integration'])

/** Projects that start dozens of services. With TEST_BUNDLES they run bundles, else sources. */
const WITH_STACKS = new Set([
  'tests-acceptance',
  'tests-integration',
  'tests-portal',
  'tests-resilience',
  'tools-storm',
])

/**
 * Provides one PostgreSQL and one NATS for the whole run: TEST_DATABASE_URL and TEST_NATS_URL, else embedded servers, which are
 * stopped and removed with their data at the end.
 */
export async function setup(root: TestProject): Promise<() => Promise<void>> {
  await using started = new AsyncDisposableStack()
  const needed = root.vitest.projects.some(({ name }) => !WITHOUT_SERVERS.has(name))
  const { TEST_DATABASE_URL: givenPostgres, TEST_NATS_URL: givenNats } = process.env
  const withPages = root.vitest.projects.some(({ name }) => WITH_PAGES.has(name))
  // Builds while the servers start. A failure is thrown when the servers are ready.
  const say = (line: string) => process.stdout.write(`${line}\n`)
  const pages = withPages ? Promise.all([ensureBuilt(say), ensureGuides(say)]) : undefined
  pages?.catch(() => undefined)
  await removeAbandonedFolders()
  const folder = started.use(await makeTemporaryFolder())
  const wantsBundles =
    process.env['TEST_BUNDLES'] && root.vitest.projects.some(({ name }) => WITH_STACKS.has(name))
  const bundles = join(folder.path, 'bundles')
  // Bundles contain the pages, so the pages are built first.
  const bundled = wantsBundles ? Promise.resolve(pages).then(() => makeBundles(bundles)) : undefined
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
  await pages
  await bundled
  // Workers inherit the environment of this process.
  if (bundled) process.env['TEST_RELEASE'] = bundles
  const running = started.move()
  return async () => {
    await running.disposeAsync()
    await removeAbandonedFolders()
  }
}
