import { signCalls } from '@licensing/grpc/callers'
import { connectTo } from '@licensing/grpc/client'
import { ServiceError } from '@licensing/grpc/errors'
import {
  address,
  callConfig,
  ConfigError,
  listenAddress,
  readConfig,
  wholeNumber,
} from '@licensing/process/config'
import { operator, withRequestContext } from '@licensing/process/context'
import type { Callee } from '@licensing/proto/callers'
import { printable, printableLines } from '@licensing/terminal/printable'
import { randomUUID } from 'node:crypto'
import { parseArgs } from 'node:util'
import { z } from 'zod'
import { createAccount, createKey, list, revoke, setFee } from './accounts.ts'
import { Refusal, UsageError } from './command.ts'
import type { AdminDependencies, Command } from './command.ts'
import { deadLetters } from './dead-letters.ts'
import { moveAccount } from './move-account.ts'
import { processorEvents, processorWebhook, resendEffects } from './processor.ts'
import { reEncrypt, rotateRootKey } from './secrets.ts'
import { setQuota } from './set-quota.ts'

const commands: Record<string, Command> = {
  'create-account': createAccount,
  'create-key': createKey,
  list,
  'dead-letters': deadLetters,
  'move-account': moveAccount,
  'processor-events': processorEvents,
  'resend-effects': resendEffects,
  'processor-webhook': processorWebhook,
  're-encrypt': reEncrypt,
  revoke,
  'rotate-root-key': rotateRootKey,
  'set-fee': setFee,
  'set-quota': setQuota,
}

type Environment = Record<string, string | undefined>

const addresses = {
  catalog: 'GRPC_ADDRESS',
  billing: 'BILLING_ADDRESS',
  licensing: 'LICENSING_ADDRESS',
  notifier: 'NOTIFIER_ADDRESS',
} as const satisfies Record<Callee, string>

const toAddress = (callee: Callee) =>
  address.optional().describe(`host:port of ${callee} in the cell to which an account moves`)

const environment = z.object({
  GRPC_ADDRESS: listenAddress.describe('host:port at which the catalog service listens on this machine'),
  LICENSING_ADDRESS: address.optional().describe('host:port of the licensing service'),
  NOTIFIER_ADDRESS: address.optional().describe('host:port of the notifier service'),
  BILLING_ADDRESS: address.optional().describe('host:port of the billing service'),
  CALL_KEYS: callConfig.CALL_KEYS,
  TO_CATALOG_ADDRESS: toAddress('catalog'),
  TO_LICENSING_ADDRESS: toAddress('licensing'),
  TO_BILLING_ADDRESS: toAddress('billing'),
  TO_NOTIFIER_ADDRESS: toAddress('notifier'),
  TO_CALL_KEYS: callConfig.CALL_KEYS.describe('CALL_KEYS of catalog in the cell to which an account moves'),
  PUBLIC_URL: z.url().optional().describe('public address of the gateway, for processor-webhook --create'),
  FEE_BPS: wholeNumber('basis points')
    .optional()
    .describe('transaction fee of new accounts, in basis points'),
  FEE_FIXED_MINOR: wholeNumber('minor units of the currency')
    .optional()
    .describe('fixed part of the transaction fee of new accounts, in minor units'),
})

/** Lines for standard output and standard error, and the exit code. */
interface CommandResult {
  output: string
  errors: string
  code: number
}

/** Runs `licensing-admin` with these arguments. */
export async function runAdmin(args: string[], env: Environment): Promise<CommandResult> {
  const [name = '--help', ...rest] = args
  if (['--help', '-h', 'help'].includes(name) || rest.includes('--help')) {
    return { output: help(), errors: '', code: 0 }
  }
  try {
    const command = Object.hasOwn(commands, name) ? commands[name] : undefined
    if (!command) throw new UsageError(`unknown command ${name}`)
    const lines = await run(name, command, argumentsOf(command, rest), env)
    // A line may contain names that a vendor chose.
    return {
      output: lines.map((line) => `${printable(JSON.stringify(line))}\n`).join(''),
      errors: '',
      code: 0,
    }
  } catch (error) {
    const usage = error instanceof UsageError
    const errors = `licensing-admin: ${printableLines(explain(error))}\n${usage ? `\n${help()}` : ''}`
    return { output: '', errors, code: usage || error instanceof ConfigError ? 2 : 1 }
  }
}

async function run(
  name: string,
  command: Command,
  given: Record<string, string | undefined>,
  env: Environment,
): Promise<object[]> {
  const config = readConfig(environment, env)
  using channels = new DisposableStack()
  const addressOf = (callee: Callee) => {
    if (callee === 'catalog') return connectable(config.GRPC_ADDRESS)
    const variable = addresses[callee]
    const target = config[variable]
    if (!target) throw new UsageError(`set ${variable} to the address of the ${callee} service`)
    return target
  }
  const callsOf: AdminDependencies['callsOf'] = (callee, service) => {
    const sign = signCalls('catalog', callee, { ...config, CALLER_CHECK: 'off' })
    return channels.adopt(connectTo(service, addressOf(callee), { sign }), (channel) => channel.close()).calls
  }
  const callsThere: AdminDependencies['callsThere'] = (callee, service) => {
    const variable = `TO_${callee.toUpperCase() as Uppercase<Callee>}_ADDRESS` as const
    const target = config[variable]
    if (!target)
      throw new UsageError(`set ${variable} to the address of the ${callee} service of the other cell`)
    const sign = signCalls('catalog', callee, { CALL_KEYS: config.TO_CALL_KEYS, CALLER_CHECK: 'off' })
    return channels.adopt(connectTo(service, target, { sign }), (channel) => channel.close()).calls
  }
  const fee = {
    ...(config.FEE_BPS !== undefined && { feeBps: config.FEE_BPS }),
    ...(config.FEE_FIXED_MINOR !== undefined && { feeFixedMinor: BigInt(config.FEE_FIXED_MINOR) }),
  }
  // Names the actor and the command to the services, for the audit log.
  const context = { requestId: randomUUID(), caller: { actor: operator, operation: name } }
  return await withRequestContext(context, () =>
    command.run({ callsOf, callsThere, fee, publicUrl: config.PUBLIC_URL }, given),
  )
}

/** The address at which a process on this machine reaches a server that listens on all addresses or on one. */
function connectable({ host, port }: { host: string; port: number }): string {
  if (host === '::' || host === '0.0.0.0') return `localhost:${port}`
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`
}

function argumentsOf(command: Command, args: string[]): Record<string, string | undefined> {
  const options = Object.fromEntries([
    ...Object.keys(command.options).map((name) => [name, { type: 'string' as const }] as const),
    ...(command.flags ?? []).map((name) => [name, { type: 'boolean' as const }] as const),
  ])
  const { values, positionals } = parsed(args, options)
  const names = command.positionals ?? []
  if (positionals.length > names.length) {
    throw new UsageError(`unexpected argument ${positionals[names.length]}`)
  }
  const given: Record<string, string | undefined> = Object.fromEntries(
    Object.entries(values).map(([name, value]) => [name, String(value)]),
  )
  names.forEach((name, at) => (given[name] = positionals[at]))
  const missing = [
    ...names.filter((name) => given[name] === undefined && !name.endsWith('?')),
    ...Object.keys(command.options)
      .filter((name) => command.options[name]!.required && given[name] === undefined)
      .map((name) => `--${name}`),
  ]
  if (missing.length > 0) throw new UsageError(`missing: ${missing.join(', ')}`)
  return given
}

function parsed(args: string[], options: Record<string, { type: 'string' | 'boolean' }>) {
  try {
    return parseArgs({ args, options, strict: true, allowPositionals: true })
  } catch (error) {
    throw new UsageError((error as Error).message, { cause: error })
  }
}

function explain(error: unknown): string {
  if (error instanceof ServiceError && error.errors.length > 0) {
    return error.errors
      .map(({ pointer, message }) => `${pointer.slice(1).replaceAll('_', '-')} ${message}`)
      .join('; ')
  }
  if (error instanceof ServiceError || error instanceof Refusal || error instanceof UsageError) {
    return error.message
  }
  if (error instanceof ConfigError) return error.message
  return error instanceof Error ? (error.stack ?? error.message) : String(error)
}

function help(): string {
  const lines = Object.entries(commands).map(
    ([name, { synopsis, summary }]) => `  ${`${name} ${synopsis}`.trim()}\n      ${summary}\n`,
  )
  return `licensing-admin: operator commands. Run it with the environment of the catalog service.\n\n${lines.join('')}`
}
