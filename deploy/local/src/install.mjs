// Installs the dependencies if they differ from the lock file. Runs before anything is installed, with any version of Node,
// so it is plain JavaScript and imports only modules of Node.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const checkout = fileURLToPath(new URL('../../..', import.meta.url))
const lockFolder = `${checkout}node_modules/.installing`
const sayEveryMs = 10_000
// If pnpm prints nothing for this time, a line is printed. Some of its steps print nothing for many seconds.
const maxSilenceMs = 900

if (!isInstalled()) {
  lockInstallation()
  try {
    // Another process may have installed them meanwhile.
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

/** Runs a program, and prints a line when it has printed nothing for a while. @returns why it failed */
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
    // Written to standard error, because scripts read standard output.
    process.stderr.write(text)
  }
  for (const output of [child.stdout, child.stderr]) output.on('data', say)
  const watch = setInterval(() => {
    if (Date.now() - saidAt < maxSilenceMs) return
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

/** Lets one process at a time install in this checkout. The lock is a folder, which only one process can create. */
function lockInstallation() {
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

/** Whether the process with the lock was killed. The file with its pid is written a moment after the folder. */
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
