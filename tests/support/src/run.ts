import { COMPILE_CACHE } from '@licensing/local-servers/node-process'
import { execFileSync } from 'node:child_process'
import { globSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { createVitest, parseCLI, TestsNotFoundError } from 'vitest/node'
import { chromium } from './chromium.ts'
import { count, slowestFiles } from './outcome.ts'

// `npm test`: all projects, or the projects and files that the arguments name (as vitest takes them). It prints the ten
// slowest files, then `N passed, N failed`, and exits 0 if nothing failed. A run of all tests starts services from
// bundles, as the images do; a run of named files starts their sources. TEST_BUNDLES=1 and TEST_BUNDLES= override this.
// `npm run test:full` (`--full`) runs every case of the files that otherwise draw some, every round of the races, and the files
// `*.full.test.ts`, which `npm test` runs only if an argument names one.
// Tests with containers are skipped unless TEST_DOCKER=1: `npm run test:compose` runs them.

const root = fileURLToPath(new URL('../../..', import.meta.url))
if (!chromium) {
  process.stdout.write('no Chromium is installed (or named by CHROMIUM): tests in a browser are skipped\n')
}

const words = process.argv.slice(2).filter((word) => word !== '--full')
if (words.length < process.argv.length - 2) {
  process.env['TEST_FULL'] = process.env['TEST_BUNDLES'] = '1'
  const drawing = ['grep', '-l', '-e', 'test-support/drawn', '-e', "/races.ts'", '--', '*.test.ts']
  words.push(
    ...execFileSync('git', drawing, { cwd: root, encoding: 'utf8' }).trim().split('\n'),
    'tests/portal',
    '.full.test.ts',
  )
}
if (words.some((word) => word.includes('.full.test'))) {
  process.env['TEST_FULL_FILES'] = '1'
} else {
  const exclude = (path: string) => path.endsWith('node_modules')
  const left = globSync('**/*.full.test.ts', { cwd: root, exclude }).toSorted()
  if (left.length > 0) process.stdout.write(`only npm run test:full runs:\n${left.join('\n')}\n`)
}
const { filter, options } = parseCLI(['vitest', 'run', ...words])
if (filter.length === 0) process.env['TEST_BUNDLES'] ??= '1'
process.env['NODE_ENV'] ??= 'test'
// Programs that tests start inherit the compile cache.
Object.assign(process.env, COMPILE_CACHE)
const config = `${root}vitest.config.ts`
const vitest = await createVitest({ ...options, root, config, watch: false })
await vitest.start(filter).catch((error: unknown) => {
  // The reporter has already printed this error.
  if (!(error instanceof TestsNotFoundError)) throw error
})
const { passed, failed } = count(vitest)
const slowest = slowestFiles(vitest)
await vitest.close()
process.stdout.write(`slowest files:\n${slowest.join('\n')}\n${passed} passed, ${failed} failed\n`)
process.exit(failed > 0 || passed === 0 ? 1 : 0)
