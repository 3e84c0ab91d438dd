import type { Command, Option } from './command.ts'
import { commonOptions } from './parse.ts'

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
