import { run } from './run.ts'

/** For what does not end by itself after a signal. */
const STOP_MS = 1_000

// The reader of a pipe may end first (`… | head`). The rest of the output is dropped then.
process.stdout.on('error', (error: NodeJS.ErrnoException) => process.exit(error.code === 'EPIPE' ? 0 : 1))

// The handlers stay: npm passes a Ctrl-C on to a program that the terminal has sent it to already.
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
// Explicitly, because an aborted call may still have its connection. All output is written before.
process.stdout.write('', () => process.exit(exitCode))
