import { spawnSync } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

// `npm run test:compose`: the acceptance tests, each file on a stack of deploy/compose.yaml of its own. Images are
// built first unless TEST_COMPOSE names a tag that is there.

const root = fileURLToPath(new URL('../../..', import.meta.url))

const skipped: Record<string, string> = {
  'start.test.ts': 'is about npm start, which starts no container',
  'demo.test.ts': 'is about npm run demo, which starts a stack of its own',
}

const tag = process.env['TEST_COMPOSE'] || 'local'
if (!process.env['TEST_COMPOSE']) {
  run('docker', ['compose', '--env-file', '/dev/null', '--file', 'deploy/compose.yaml', 'build'])
}
const wanted = process.argv.slice(2)
const files = readdirSync(`${root}tests/acceptance/src`)
  .filter((file) => file.endsWith('.test.ts'))
  .filter((file) => wanted.length === 0 || wanted.some((part) => file.includes(part)))
for (const file of files) {
  if (skipped[file] !== undefined) process.stdout.write(`skipped: ${file} ${skipped[file]}\n`)
}
const chosen = files.filter((file) => skipped[file] === undefined)
// One stack at a time. A stack is slower to come up than processes are.
const options = [
  '--project',
  'tests-acceptance',
  '--no-file-parallelism',
  '--testTimeout',
  '180000',
  '--hookTimeout',
  '180000',
]
run(
  process.execPath,
  ['tests/support/src/run.ts', ...options, ...chosen.map((file) => `tests/acceptance/src/${file}`)],
  { TEST_COMPOSE: tag },
)

function run(command: string, args: string[], environment: Record<string, string> = {}): void {
  const { status, error } = spawnSync(command, args, {
    cwd: root,
    env: { ...process.env, ...environment },
    stdio: 'inherit',
  })
  if (error) throw error
  if (status !== 0) process.exit(status ?? 1)
}
