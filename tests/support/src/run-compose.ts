import { spawnSync } from 'node:child_process'
import { existsSync, readdirSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

// `npm run test:compose [-- part of a file name …]` runs everything that needs a container engine: the integration suite with
// images, then the acceptance tests with deploy/compose.yaml, each file with its own stack. Images are built first unless
// TEST_COMPOSE has the tag of existing images. With file names, it runs only the matching acceptance tests.

const root = fileURLToPath(new URL('../../..', import.meta.url))

const skipped: Record<string, string> = {
  'start.test.ts': 'tests npm start, which starts no container',
}

const tag = process.env['TEST_COMPOSE'] || 'local'
if (!process.env['TEST_COMPOSE']) {
  run('docker', ['compose', '--env-file', '/dev/null', '--file', 'deploy/compose.yaml', 'build'])
}
const wanted = process.argv.slice(2)
if (wanted.length === 0) {
  // In a container that uses the host's engine, published ports are on the host's loopback.
  const override = existsSync('/.dockerenv') && { TESTCONTAINERS_HOST_OVERRIDE: '127.0.0.1' }
  // The tests of single components run their receivers on this machine, not for a stack in containers.
  const own = { TEST_DOCKER: '1', TEST_IMAGES: tag, TEST_COMPOSE: '' }
  runTests(['--project', 'tests-integration'], { ...own, ...override })
}
const files = readdirSync(`${root}tests/acceptance/src`)
  .filter((file) => file.endsWith('.test.ts') && !file.endsWith('.full.test.ts'))
  .filter((file) => wanted.length === 0 || wanted.some((part) => file.includes(part)))
for (const file of files) {
  if (skipped[file] !== undefined) process.stdout.write(`skipped: ${file} ${skipped[file]}\n`)
}
const chosen = files.filter((file) => skipped[file] === undefined)
// One stack at a time, with longer timeouts, because containers start more slowly than processes.
const patient = ['--no-file-parallelism', '--testTimeout', '180000', '--hookTimeout', '180000']
runTests(
  ['--project', 'tests-acceptance', ...patient, ...chosen.map((file) => `tests/acceptance/src/${file}`)],
  { TEST_COMPOSE: tag },
)

function runTests(options: string[], environment: Record<string, string>): void {
  run(process.execPath, ['tests/support/src/run.ts', ...options], environment)
}

function run(command: string, args: string[], environment: Record<string, string> = {}): void {
  const { status, error } = spawnSync(command, args, {
    cwd: root,
    env: { ...process.env, ...environment },
    stdio: 'inherit',
  })
  if (error) throw error
  if (status !== 0) process.exit(status ?? 1)
}
