import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { createVitest, parseCLI, TestsNotFoundError } from 'vitest/node'
import { count, slowestFiles } from './outcome.ts'

// `npm test`: all projects, or the projects and files that the arguments name (as vitest takes them). It prints the ten
// slowest files, then `N passed, N failed`, and exits 0 if nothing failed. A run of all tests starts services from
// bundles, as the images do; a run of named files starts their sources. TEST_BUNDLES=1 and TEST_BUNDLES= override this.
// Tests with containers are skipped unless TEST_DOCKER=1: `npm run test:compose` runs them.

const root = fileURLToPath(new URL('../../..', import.meta.url))
if (![process.env['CHROMIUM'], '/usr/bin/chromium'].some((path) => path && existsSync(path))) {
  process.stdout.write('no Chromium is installed (or named by CHROMIUM): tests in a browser are skipped\n')
}

const { filter, options } = parseCLI(['vitest', 'run', ...process.argv.slice(2)])
if (filter.length === 0) process.env['TEST_BUNDLES'] ??= '1'
process.env['NODE_ENV'] ??= 'test'
const config = `${root}vitest.config.ts`
const vitest = await createVitest({ ...options, root, config, watch: false })
await vitest.start(filter).catch((error: unknown) => {
  // The reporter has printed it.
  if (!(error instanceof TestsNotFoundError)) throw error
})
const { passed, failed } = count(vitest)
const slowest = slowestFiles(vitest)
await vitest.close()
process.stdout.write(`slowest files:\n${slowest.join('\n')}\n${passed} passed, ${failed} failed\n`)
process.exit(failed > 0 || passed === 0 ? 1 : 0)
