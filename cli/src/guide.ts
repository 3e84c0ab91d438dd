import type { Argument, CommandUnknownOpts, Option } from '@commander-js/extra-typings'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import type { Context } from './command/context.ts'
import { createProgram } from './program.ts'

export const guideFile = fileURLToPath(new URL('../../docs/guides/cli.md', import.meta.url))

const HEADING = '## All commands\n'

/** The guide, with its last section generated from the commands. */
export function guide(): string {
  const text = readFileSync(guideFile, 'utf8')
  const at = text.indexOf(HEADING)
  if (at < 0) throw new Error(`${guideFile} has no section ${HEADING}`)
  return text.slice(0, at) + reference(createProgram({} as Context, nowhere, nowhere))
}

const nowhere = { write: () => undefined }

/** A list of the options of every command, and a section for each command. */
export function reference(program: CommandUnknownOpts): string {
  const commands = leaves(program).map(({ path, command }) => {
    const lines = [...argumentLines(command), ...optionsOf(command).map(optionLine)]
    return [
      `### ${path}`,
      `\`${program.name()} ${path}${usage(command)}\`: ${command.description()}.`,
      ...(lines.length === 0 ? [] : [lines.join('\n')]),
    ].join('\n\n')
  })
  const options = optionsOf(program).map(optionLine).join('\n')
  return [HEADING.trimEnd(), `Options of every command:\n\n${options}`, ...commands].join('\n\n') + '\n'
}

function leaves(
  command: CommandUnknownOpts,
  names: readonly string[] = [],
): { path: string; command: CommandUnknownOpts }[] {
  return command
    .createHelp()
    .visibleCommands(command)
    .flatMap((one) => {
      const path = [...names, one.name()]
      if (one.name() === 'help' && names.length > 0) return []
      return one.commands.length === 0 ? [{ path: path.join(' '), command: one }] : leaves(one, path)
    })
}

/** The options of a command, without --help, which every command has. */
const optionsOf = (command: CommandUnknownOpts) =>
  command
    .createHelp()
    .visibleOptions(command)
    .filter(({ long }) => long !== '--help' || command.parent === null)

const usage = (command: CommandUnknownOpts) =>
  command.registeredArguments.map((argument) => ` ${termOf(argument)}`).join('')

function termOf(argument: Argument): string {
  const name = argument.variadic ? `${argument.name()}...` : argument.name()
  return argument.required ? `<${name}>` : `[${name}]`
}

const argumentLines = (command: CommandUnknownOpts) =>
  command.registeredArguments
    .filter(({ description }) => description !== '')
    .map(
      (argument) =>
        `- \`${termOf(argument)}\`: ${argument.description.replaceAll('*', '\\*')}${choices(argument.argChoices)}`,
    )

function optionLine({ flags, description, mandatory, defaultValue, argChoices }: Option): string {
  const notes = [
    ...(mandatory && defaultValue === undefined ? ['required'] : []),
    ...(defaultValue === undefined || defaultValue === '*' || typeof defaultValue === 'boolean'
      ? []
      : [`default: ${String(defaultValue)}`]),
  ]
  const note = notes.length === 0 ? '' : ` (${notes.join(', ')})`
  return `- \`${flags}\`: ${description.replaceAll('*', '\\*')}${note}${choices(argChoices)}`
}

/** Leaves out long lists, such as the event types, which have their own guide. */
const choices = (all: readonly string[] | undefined) =>
  all === undefined || all.length > 10 ? '' : `: ${all.map((each) => `\`${each}\``).join(', ')}`
