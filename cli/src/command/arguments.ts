import { parseArgs } from 'node:util'
import type { Command, Option } from './command.ts'
import { UsageError } from './failures.ts'

/** Options of every command. */
const commonOptions: Readonly<Record<string, Option>> = {
  url: { type: 'string', value: 'URL', help: 'address of the licensing service (LICENSING_URL)' },
  key: { type: 'string', value: 'KEY', help: 'API key (LICENSING_API_KEY)' },
  app: { type: 'string', value: 'ID', help: 'id of the application (LICENSING_APP)' },
  json: { type: 'boolean', help: 'print results and errors as JSON' },
  help: { type: 'boolean', help: 'show this help' },
}

export interface Parsed {
  /** Undefined if the arguments name no command. */
  readonly command: Command | undefined
  readonly positionals: readonly string[]
  readonly values: Readonly<Record<string, string | boolean | undefined>>
}

/** Options may stand before the command too, so all commands' options are read, and those of another then refused. */
export function parse(commands: readonly Command[], args: readonly string[]): Parsed {
  const options = Object.assign({}, commonOptions, ...commands.map((command) => command.options)) as Record<
    string,
    Option
  >
  const { values, positionals } = read(args, options)
  const named = positionals[0] === 'help' ? positionals.slice(1) : positionals
  const help = positionals[0] === 'help' || values['help'] === true
  const command = commands
    .toSorted((a, b) => b.name.length - a.name.length)
    .find(({ name }) => `${named.join(' ')} `.startsWith(`${name} `))
  if (command === undefined) {
    const isGroup = commands.some(({ name }) => name.startsWith(`${named.join(' ')} `))
    if (named.length > 0 && !(help && isGroup)) throw new UsageError(`unknown command: ${named.join(' ')}`)
    return { command, positionals: [], values: { ...values, help } }
  }
  for (const name of Object.keys(values)) {
    if (name in commonOptions || name in command.options) continue
    throw new UsageError(`${command.name} has no option --${name}`)
  }
  return {
    command,
    positionals: named.slice(command.name.split(' ').length),
    values: { ...values, help },
  }
}

function read(args: readonly string[], options: Readonly<Record<string, Option>>) {
  const types = Object.fromEntries(Object.entries(options).map(([name, { type }]) => [name, { type }]))
  try {
    return parseArgs({ args: [...args], options: types, allowPositionals: true })
  } catch (error) {
    const [message = ''] = (error instanceof Error ? error.message : String(error)).split(/[.\n]/)
    throw new UsageError(message)
  }
}

export const program = 'licensing'

export function generalHelp(commands: readonly Command[]): string {
  const rows = commands.map((command): [string, string] => [signature(command), command.summary])
  return [
    `Usage: ${program} <command> [options]`,
    '',
    'Commands:',
    ...columns(rows),
    '',
    'Global options:',
    ...columns(optionRows(commonOptions)),
    '',
    'Examples:',
    ...commands.flatMap(({ examples }) => examples.slice(0, 1).map((example) => `  ${program} ${example}`)),
    '',
    'Exit codes: 0 done, 1 refused or failed, 2 wrong usage.',
  ].join('\n')
}

export function commandHelp(command: Command): string {
  const own = optionRows(command.options)
  return [
    `Usage: ${program} ${signature(command)} [options]`,
    '',
    command.summary,
    '',
    'Options:',
    ...columns([...own, ...optionRows(commonOptions)]),
    '',
    'Examples:',
    ...command.examples.map((example) => `  ${program} ${example}`),
  ].join('\n')
}

const signature = ({ name, argument }: Command) => (argument === undefined ? name : `${name} ${argument}`)

const optionRows = (options: Readonly<Record<string, Option>>) =>
  Object.entries(options).map(([name, { value, help }]): [string, string] => [
    value === undefined ? `--${name}` : `--${name} ${value}`,
    help,
  ])

function columns(rows: readonly [string, string][]): string[] {
  const width = Math.max(...rows.map(([left]) => left.length))
  return rows.map(([left, right]) => `  ${left.padEnd(width)}  ${right}`)
}
