import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { createVitest, parseCLI } from 'vitest/node'
import { runTests } from './second-run.ts'

// `npm test`: all projects, or those that the arguments name (as vitest takes them). The last line that it prints
// is `N passed, N failed`; it exits 0 when nothing failed. Up to five files that failed run once more, alone; what passes
// then is printed as flaky, and is a defect to be mended. Without the name of a file among the arguments, services run as
// the bundles of which images are made; TEST_BUNDLES= (empty) runs their sources, as for a file that is named.

const root = fileURLToPath(new URL('../../..', import.meta.url))
Object.assign(process.env, await containerEnvironment())
if (![process.env['CHROMIUM'], '/usr/bin/chromium'].some((path) => path && existsSync(path))) {
  process.stdout.write('no Chromium is installed (or named by CHROMIUM): tests in a browser are skipped\n')
}

const { filter, options } = parseCLI(['vitest', 'run', ...process.argv.slice(2)])
if (filter.length === 0) process.env['TEST_BUNDLES'] ??= '1'
process.env['NODE_ENV'] ??= 'test'
const config = `${root}vitest.config.ts`
const vitest = await createVitest({ ...options, root, config, watch: false })
const { passed, failed, flaky } = await runTests(vitest, filter)
await vitest.close()
for (const test of flaky) process.stdout.write(`flaky: ${test} failed at first and passed alone\n`)
process.stdout.write(`${passed} passed, ${failed} failed\n`)
process.exit(failed > 0 || passed === 0 ? 1 : 0)

/**
 * Tells the tests that run containers whether an engine answers: TEST_DOCKER is `1` when it does, else absent, and
 * they are skipped; so they are where the caller has set it to `0`.
 */
async function containerEnvironment(): Promise<Record<string, string>> {
  if (process.env['TEST_DOCKER'] === '0') {
    process.stdout.write('TEST_DOCKER=0: tests with containers are skipped\n')
    return {}
  }
  try {
    const format = ['version', '--format', '{{.Server.Version}}']
    const { stdout } = await promisify(execFile)('docker', format, { timeout: 10_000 })
    process.stdout.write(`container engine ${stdout.trim()} answers: tests with containers run too\n`)
  } catch {
    process.stdout.write('no container engine answers: tests with containers are skipped\n')
    return {}
  }
  // In a container that has the host's engine, published ports are still found on its own loopback here.
  const override = existsSync('/.dockerenv') && process.env['TESTCONTAINERS_HOST_OVERRIDE'] === undefined
  return { TEST_DOCKER: '1', ...(override && { TESTCONTAINERS_HOST_OVERRIDE: '127.0.0.1' }) }
}
