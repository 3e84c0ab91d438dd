import { connect } from '@licensing/database/connect'
import { migrate } from '@licensing/database/migrate'
import { isDatabaseUnavailable } from '@licensing/database/problems'
import { signCalls } from '@licensing/grpc/callers'
import { connectTo } from '@licensing/grpc/client'
import { ServiceError } from '@licensing/grpc/errors'
import { address, callConfig, ConfigError, readConfig } from '@licensing/process/config'
import { BillingOperationsService } from '@licensing/proto/billing-operations'
import { DeadLettersService } from '@licensing/proto/dead-letters'
import { QuotaService } from '@licensing/proto/quota-service'
import { SecretsService } from '@licensing/proto/secrets'
import { RootKeyService } from '@licensing/proto/root-keys'
import { printable, printableLines } from '@licensing/terminal/printable'
import { parseArgs } from 'node:util'
import { z } from 'zod'
import { feeConfig } from '../config.ts'
import { catalogMigrations } from '../migrations.ts'
import type { Command, ConsumingService, CountingService, KeepingService } from './command.ts'
import { Refusal, UsageError } from './command.ts'
import { createAccount, createKey, list, revoke, setFee } from './accounts.ts'
import { deadLetters } from './dead-letters.ts'
import { processorEvents, processorWebhook, resendEffects } from './processor.ts'
import { reEncrypt, rotateRootKey } from './secrets.ts'
import { setQuota } from './set-quota.ts'

const commands: Record<string, Command> = {
  'create-account': createAccount,
  'create-key': createKey,
  list,
  'dead-letters': deadLetters,
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

const environment = z.object({
  DATABASE_URL: z.url().describe('postgres://… of the catalog service’s database'),
  LICENSING_ADDRESS: address
    .optional()
    .describe('host:port of the licensing service, for dead-letters, rotate-root-key and set-quota'),
  NOTIFIER_ADDRESS: address
    .optional()
    .describe('host:port of the notifier service, for dead-letters and set-quota'),
  BILLING_ADDRESS: address
    .optional()
    .describe('host:port of the billing service, for processor-… and set-quota'),
  CALL_KEYS: callConfig.CALL_KEYS,
  PUBLIC_URL: z.url().optional().describe('public address of the gateway, for processor-webhook --create'),
  FEE_BPS: feeConfig.FEE_BPS.unwrap().optional(),
  FEE_FIXED_MINOR: feeConfig.FEE_FIXED_MINOR.unwrap().optional(),
})

/** Lines for standard output and standard error, and the exit code. */
interface Outcome {
  output: string
  errors: string
  code: number
}

/** Runs `licensing-admin` with these arguments. */
export async function runAdmin(args: string[], env: Environment): Promise<Outcome> {
  const [name = '--help', ...rest] = args
  if (['--help', '-h', 'help'].includes(name) || rest.includes('--help')) {
    return { output: help(), errors: '', code: 0 }
  }
  try {
    const command = Object.hasOwn(commands, name) ? commands[name] : undefined
    if (!command) throw new UsageError(`unknown command ${name}`)
    const lines = await run(command, argumentsOf(command, rest), env)
    // A line may contain names that a vendor chose.
    return { output: lines.map((line) => `${printable(line)}\n`).join(''), errors: '', code: 0 }
  } catch (error) {
    const usage = error instanceof UsageError
    const errors = `licensing-admin: ${printableLines(explain(error))}\n${usage ? `\n${help()}` : ''}`
    return { output: '', errors, code: usage || error instanceof ConfigError ? 2 : 1 }
  }
}

const addresses = {
  billing: 'BILLING_ADDRESS',
  licensing: 'LICENSING_ADDRESS',
  notifier: 'NOTIFIER_ADDRESS',
} as const

async function run(
  command: Command,
  given: Record<string, string | undefined>,
  env: Environment,
): Promise<string[]> {
  const config = readConfig(environment, env)
  const sql = connect(config.DATABASE_URL, { name: 'licensing-admin', max: 2 })
  using channels = new DisposableStack()
  const addressOf = (service: keyof typeof addresses) => {
    const variable = addresses[service]
    const target = config[variable]
    if (!target) throw new UsageError(`set ${variable} to the address of the ${service} service`)
    return target
  }
  const to = (service: keyof typeof addresses) =>
    [addressOf(service), { sign: signCalls('catalog', service, { ...config, CALLER_CHECK: 'off' }) }] as const
  const deadLetters = (service: ConsumingService) =>
    channels.adopt(connectTo(DeadLettersService, ...to(service)), (channel) => channel.close()).calls
  const rootKeys = () =>
    channels.adopt(connectTo(RootKeyService, ...to('licensing')), (channel) => channel.close()).calls
  const quotas = (service: CountingService) =>
    channels.adopt(connectTo(QuotaService, ...to(service)), (channel) => channel.close()).calls
  const secrets = (service: KeepingService) =>
    channels.adopt(connectTo(SecretsService, ...to(service)), (channel) => channel.close()).calls
  const billing = () =>
    channels.adopt(connectTo(BillingOperationsService, ...to('billing')), (channel) => channel.close()).calls
  try {
    // This may be the first process that uses the database.
    await migrate(sql, catalogMigrations)
    const fee = {
      ...(config.FEE_BPS !== undefined && { bps: config.FEE_BPS }),
      ...(config.FEE_FIXED_MINOR !== undefined && { fixedMinor: BigInt(config.FEE_FIXED_MINOR) }),
    }
    return await command.run(
      { sql, fee, deadLetters, rootKeys, quotas, secrets, billing, publicUrl: config.PUBLIC_URL },
      given,
    )
  } finally {
    await sql.end({ timeout: 5 })
  }
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
    return error.errors.map(({ pointer, message }) => `${pointer.slice(1)} ${message}`).join('; ')
  }
  if (error instanceof ServiceError || error instanceof Refusal || error instanceof UsageError) {
    return error.message
  }
  if (error instanceof ConfigError) return error.message
  if (isDatabaseUnavailable(error)) return `the database cannot be reached: ${(error as Error).message}`
  return error instanceof Error ? (error.stack ?? error.message) : String(error)
}

function help(): string {
  const lines = Object.entries(commands).map(
    ([name, { synopsis, summary }]) => `  ${`${name} ${synopsis}`.trim()}\n      ${summary}\n`,
  )
  return `licensing-admin: operator commands. Run it with the environment of the catalog service.\n\n${lines.join('')}`
}
