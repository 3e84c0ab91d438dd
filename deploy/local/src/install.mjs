// Installs the dependencies when they are not those of the lock file. Runs before anything is installed, on
// whatever Node there is, so it is plain JavaScript and uses nothing but Node.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const checkout = fileURLToPath(new URL('../../..', import.meta.url))
const lockFolder = `${checkout}node_modules/.installing`
const sayEveryMs = 10_000
// Of the installation itself: some of its steps print nothing for many seconds.
const longestSilenceMs = 900

if (!isInstalled()) {
  takeTurn()
  try {
    // Somebody else may have done it meanwhile.
    if (!isInstalled()) await install()
  } finally {
    rmSync(lockFolder, { recursive: true, force: true })
  }
}

/** pnpm keeps a copy of the lock file that it installed from. */
function isInstalled() {
  const installed = readOrEmpty(`${checkout}node_modules/.pnpm/lock.yaml`)
  return (
    installed !== '' &&
    installed === readOrEmpty(`${checkout}pnpm-lock.yaml`) &&
    existsSync(`${checkout}node_modules/.bin/node`)
  )
}

async function install() {
  process.stderr.write('installing the dependencies with pnpm (the first time takes a minute)\n')
  const args = [`${checkout}tools/pnpm/pnpm.mjs`, 'install', '--frozen-lockfile', '--reporter=append-only']
  const why = await run(args)
  if (why === undefined) return
  process.stderr.write(
    `\nThe dependencies could not be installed (${why}).\n` +
      'The reason is printed above. The most frequent cause is that the npm registry cannot be reached: check `npm ping` (behind a\n' +
      'proxy: npm config set proxy …, with a mirror: npm config set registry …) and run this again, or by hand:\n' +
      'node tools/pnpm/pnpm.mjs install\n',
  )
  rmSync(lockFolder, { recursive: true, force: true })
  process.exit(1)
}

/** Runs a program, and prints a line whenever it has printed nothing for a while. @returns why it failed */
async function run(args) {
  const child = spawn(process.execPath, args, {
    cwd: checkout,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, CI: 'true' },
  })
  const startedAt = Date.now()
  let saidAt = startedAt
  const say = (text) => {
    saidAt = Date.now()
    // Its progress is no output of ours: scripts read standard output.
    process.stderr.write(text)
  }
  for (const output of [child.stdout, child.stderr]) output.on('data', say)
  const watch = setInterval(() => {
    if (Date.now() - saidAt < longestSilenceMs) return
    say(`still installing, ${Math.round((Date.now() - startedAt) / 1000)} s\n`)
  }, 50)
  try {
    const [code, signal] = await once(child, 'close')
    return code === 0 ? undefined : `it ended with ${code ?? signal}`
  } catch (error) {
    return error.message
  } finally {
    clearInterval(watch)
  }
}

/** One at a time in this checkout; a folder is made by one alone. */
function takeTurn() {
  mkdirSync(`${checkout}node_modules`, { recursive: true })
  for (let saidAt = Date.now(); ;) {
    try {
      mkdirSync(lockFolder)
      writeFileSync(`${lockFolder}/pid`, String(process.pid))
      return
    } catch (error) {
      if (error.code !== 'EEXIST') throw error
    }
    if (Date.now() - saidAt >= sayEveryMs) {
      saidAt = Date.now()
      process.stderr.write(
        `waiting for process ${readOrEmpty(`${lockFolder}/pid`)}, which installs the dependencies\n`,
      )
    }
    if (isAbandoned()) rmSync(lockFolder, { recursive: true, force: true })
    else Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 500)
  }
}

/** Its maker was killed. The pid is there a moment after the folder. */
function isAbandoned() {
  const pid = Number(readOrEmpty(`${lockFolder}/pid`))
  if (pid > 0) {
    try {
      process.kill(pid, 0)
      return false
    } catch (error) {
      return error.code === 'ESRCH'
    }
  }
  try {
    return Date.now() - statSync(lockFolder).mtimeMs > 10_000
  } catch {
    return false
  }
}

function readOrEmpty(file) {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return ''
  }
}
