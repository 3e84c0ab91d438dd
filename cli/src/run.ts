import { createLicensingBackend } from '@licensing/sdk/backend'
import { findApplication, connectionOf, setting, useProxy } from './command/connection.ts'
import type { Call, Command, ExitCode } from './command/command.ts'
import { UsageError } from './command/failures.ts'
import { commandHelp, generalHelp, program, parse } from './command/arguments.ts'
import type { Parsed } from './command/arguments.ts'
import { createOutput, report } from './command/output.ts'
import type { Output, Stream } from './command/output.ts'

export interface Invocation {
  readonly args: readonly string[]
  readonly env: NodeJS.ProcessEnv
  readonly stdout: Stream
  readonly stderr: Stream
  readonly signal: AbortSignal
}

export async function run(commands: readonly Command[], invocation: Invocation): Promise<ExitCode> {
  const { args, env, stdout, stderr, signal } = invocation
  // Before the arguments are parsed, so that an error in them is printed as JSON too.
  let out = createOutput(stdout, stderr, { json: args.includes('--json'), env, secrets: [] })
  try {
    const parsed = parse(commands, args)
    const { command, values } = parsed
    if (values['help'] === true) {
      stdout.write(`${command ? commandHelp(command) : generalHelp(commands)}\n`)
      return 0
    }
    if (command === undefined) {
      stderr.write(`${generalHelp(commands)}\n`)
      return 2
    }
    useProxy(env, (message) => out.message(`warning: ${message}`))
    const apiKey = setting(values['key'], env['LICENSING_API_KEY'])
    out = createOutput(stdout, stderr, { json: values['json'] === true, env, secrets: [apiKey ?? ''] })
    return await command.run(callOf(command, parsed, apiKey, out, { env, signal }))
  } catch (error) {
    if (signal.aborted) return 1
    report(out, error)
    return error instanceof UsageError ? 2 : 1
  }
}

function callOf(
  command: Command,
  { positionals, values }: Parsed,
  apiKey: string | undefined,
  out: Output,
  { env, signal }: Pick<Invocation, 'env' | 'signal'>,
): Call {
  const wanted = command.argument === undefined ? 0 : 1
  if (positionals.length !== wanted || positionals[0]?.trim() === '') {
    const needs = command.argument === undefined ? 'no argument' : `one argument, ${command.argument}`
    throw new UsageError(`${command.name} takes ${needs}: see ${program} ${command.name} --help`)
  }
  const connection = connectionOf(setting(values['url'], env['LICENSING_URL']), apiKey)
  const backend = createLicensingBackend(connection)
  const option = (name: string) => {
    const value = values[name]
    return typeof value === 'string' ? value : undefined
  }
  return {
    argument: positionals[0] ?? '',
    option,
    flag: (name) => values[name] === true,
    env,
    out,
    connection,
    backend,
    appId: () => findApplication(backend, setting(values['app'], env['LICENSING_APP'])),
    signal,
  }
}
