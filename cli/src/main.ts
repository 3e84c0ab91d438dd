import { run } from './run.ts'

/** After a signal, the program exits at the latest after this time. */
const STOP_MS = 1_000

// The reader of a pipe may end first (`… | head`). The rest of the output is dropped then.
process.stdout.on('error', (error: NodeJS.ErrnoException) => process.exit(error.code === 'EPIPE' ? 0 : 1))

// Handles every signal, not only the first: npm passes on a Ctrl-C that this program has already received.
const stopping = new AbortController()
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.on(signal, () => {
    stopping.abort()
    setTimeout(() => process.exit(1), STOP_MS).unref()
  })
}

const exitCode = await run({
  args: process.argv.slice(2),
  env: process.env,
  stdin: process.stdin,
  stdout: process.stdout,
  stderr: process.stderr,
  signal: stopping.signal,
})
// Exits explicitly, because an aborted call may keep its connection open. All output is written before.
process.stdout.write('', () => process.exit(exitCode))
