import { CommanderError } from 'commander'
import { confirmOn, serviceOf } from './command/context.ts'
import type { Context, ExitCode } from './command/context.ts'
import { UsageError } from './command/failures.ts'
import { createOutput, report } from './command/output.ts'
import type { Stream } from './command/output.ts'
import { proxyOf, useProxy } from './command/proxy.ts'
import { readSettings } from './command/settings.ts'
import { createProgram } from './program.ts'

export interface Invocation {
  readonly args: readonly string[]
  readonly env: NodeJS.ProcessEnv
  readonly stdin?: NodeJS.ReadStream
  readonly stdout: Stream
  readonly stderr: Stream
  readonly signal: AbortSignal
}

/** Runs a command. If the signal is aborted, it returns at once; calls in progress may still be running then. */
export async function run({ args, env, stdin, stdout, stderr, signal }: Invocation): Promise<ExitCode> {
  // Read before the arguments are parsed, so that an error in them is printed as JSON too.
  const json = args.slice(0, args.includes('--') ? args.indexOf('--') : undefined).includes('--json')
  const out = createOutput(stdout, stderr, { json, env })
  const terminal = { input: stdin, output: stderr }
  let address: string | undefined
  let exitCode: ExitCode = 0
  let stopped = (): ExitCode => 1
  const context: Context = {
    env,
    out,
    terminal,
    signal,
    flags: () => program.opts(),
    at: (settings) => {
      out.hide(settings.apiKey)
      address = settings.url.replace(/\/$/, '')
      return serviceOf(settings)
    },
    service: async () => context.at(await readSettings(program.opts(), env, (line) => out.message(line))),
    confirm: (question, options) => confirmOn(terminal, question, options),
    fail: () => void (exitCode = 1),
    onStop: (stop) => void (stopped = stop),
  }
  const program = createProgram(context, stdout, stderr)
  const work = async (): Promise<ExitCode> => {
    try {
      useProxy(env, (message) => out.message(`warning: ${message}`))
      await program.parseAsync(args, { from: 'user' })
      return exitCode
    } catch (error) {
      if (signal.aborted) return stopped()
      return failureOf(error)
    }
  }
  /** Commander prints help itself, and then throws. */
  const failureOf = (error: unknown): ExitCode => {
    const isHelp = error instanceof CommanderError && !error.message.startsWith('error: ')
    if (isHelp) return error.exitCode === 0 ? 0 : 2
    const isUsage = error instanceof CommanderError || error instanceof UsageError
    const proxy = address === undefined ? undefined : proxyOf(env, address)
    report(out, error instanceof CommanderError ? usageOf(error) : error, address, proxy)
    return isUsage ? 2 : 1
  }
  try {
    return await Promise.race([work(), aborted(signal).then(() => stopped())])
  } finally {
    out.close()
  }
}

const usageOf = ({ message }: CommanderError) => new UsageError(message.replace(/^error: /, ''))

const aborted = (signal: AbortSignal) =>
  new Promise<void>((resolve) => {
    if (signal.aborted) resolve()
    signal.addEventListener('abort', () => resolve(), { once: true })
  })
