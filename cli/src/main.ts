import { commands } from './commands.ts'
import { run } from './run.ts'

// The reader of a pipe may end first (`… | head`). The rest of the output is dropped then.
process.stdout.on('error', (error: NodeJS.ErrnoException) => process.exit(error.code === 'EPIPE' ? 0 : 1))

const stopping = new AbortController()
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => stopping.abort())

process.exitCode = await run(commands, {
  args: process.argv.slice(2),
  env: process.env,
  stdout: process.stdout,
  stderr: process.stderr,
  signal: stopping.signal,
})
