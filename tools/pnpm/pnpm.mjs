// Runs pnpm: `node tools/pnpm/pnpm.mjs install`. If pnpm is missing, npm downloads it and checks the hash in
// package-lock.json. This runs before anything is installed, on any version of Node, so it is plain JavaScript without
// dependencies.
import { spawn, spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const here = fileURLToPath(new URL('.', import.meta.url))
const files = ['package.json', 'package-lock.json']
// Each version has its own folder, which never changes.
const hash = createHash('sha256')
for (const file of files) hash.update(readFileSync(join(here, file)))
const installed = join(here, 'node_modules', hash.digest('hex').slice(0, 16))
const program = `@pnpm/exe.${process.platform}-${process.arch}`

const problem = existsSync(installed) ? undefined : fetchPnpm()
if (problem === undefined) runPnpm()
else {
  process.stderr.write(`\n${problem}\n`)
  process.exitCode = 1
}

function runPnpm() {
  const folder = join(installed, 'node_modules', program)
  const child = spawn(join(folder, 'pnpm'), process.argv.slice(2), {
    stdio: 'inherit',
    // For programs that call pnpm themselves, such as turbo.
    env: { ...process.env, PATH: [folder, process.env.PATH].join(delimiter) },
  })
  for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => child.kill(signal))
  child.on('exit', (code, signal) => (process.exitCode = code ?? (signal === 'SIGINT' ? 130 : 143)))
}

/** If two processes download it at once, the first to finish is kept. @returns why it could not be downloaded */
function fetchPnpm() {
  mkdirSync(join(here, 'node_modules'), { recursive: true })
  const folder = mkdtempSync(join(here, 'node_modules', 'fetching-'))
  try {
    for (const file of files) copyFileSync(join(here, file), join(folder, file))
    const args = ['ci', '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error']
    // A script may read the output of pnpm, so npm prints to standard error.
    const { status, error } = spawnSync('npm', args, {
      cwd: folder,
      stdio: ['ignore', process.stderr, process.stderr],
    })
    if (status !== 0) return `pnpm could not be fetched (${error?.message ?? `npm ended with ${status}`}).`
    // npm leaves out packages for other platforms, and packages with another hash.
    if (!existsSync(join(folder, 'node_modules', program))) {
      return (
        `The registry has no ${program} with a hash that is in tools/pnpm/package-lock.json. If the hash of this platform\n` +
        'is missing there, add it: in tools/pnpm, with the version that package.json names, run\n' +
        `npm install --save-optional --save-exact --package-lock-only --omit-lockfile-registry-resolved ${program}@VERSION`
      )
    }
    renameSync(folder, installed)
  } catch (error) {
    if (!existsSync(installed)) throw error
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
  return undefined
}
