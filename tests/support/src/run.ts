import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { createVitest, parseCLI, TestsNotFoundError } from 'vitest/node'
import { count, slowestFiles } from './outcome.ts'

// `npm test`: all projects, or the projects and files that the arguments name (as vitest takes them). It prints the ten
// slowest files, then `N passed, N failed`, and exits 0 if nothing failed. A run of all tests starts services from
// bundles, as the images do; a run of named files starts their sources. TEST_BUNDLES=1 and TEST_BUNDLES= override this.

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
await vitest.start(filter).catch((error: unknown) => {
  // The reporter has printed it.
  if (!(error instanceof TestsNotFoundError)) throw error
})
const { passed, failed } = count(vitest)
const slowest = slowestFiles(vitest)
await vitest.close()
process.stdout.write(`slowest files:\n${slowest.join('\n')}\n${passed} passed, ${failed} failed\n`)
process.exit(failed > 0 || passed === 0 ? 1 : 0)

/** Sets TEST_DOCKER to `1` if a container engine answers and the caller has not set it to `0`; otherwise tests with containers are skipped. */
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
  // In a container that uses the host's engine, published ports are on the host's loopback.
  const override = existsSync('/.dockerenv') && process.env['TESTCONTAINERS_HOST_OVERRIDE'] === undefined
  return { TEST_DOCKER: '1', ...(override && { TESTCONTAINERS_HOST_OVERRIDE: '127.0.0.1' }) }
}
