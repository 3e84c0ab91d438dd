import { Argument } from '@commander-js/extra-typings'
import type { CommandUnknownOpts, Option } from '@commander-js/extra-typings'
import type { Context } from '../command/context.ts'
import { examples } from '../command/examples.ts'
import { members, oneOf } from '../command/parsers.ts'
import { readProfiles } from '../command/profiles.ts'
import { scripts } from './scripts.ts'

const shells = members<keyof typeof scripts>({ bash: true, zsh: true, fish: true })

export function completionCommands(program: CommandUnknownOpts, { env, out }: Context): void {
  const shell = new Argument('<shell>', 'bash, zsh or fish').argParser(oneOf(shells, 'shell'))
  shell.argChoices = shells
  program
    .command('completion')
    .description('Print the script that completes commands, options and event types in a shell')
    .addArgument(shell)
    .addHelpText(
      'after',
      [
        '',
        'Put one of these into the start file of your shell:',
        '  source <(licensing completion bash)      # ~/.bashrc',
        '  source <(licensing completion zsh)       # ~/.zshrc, after compinit',
        '  licensing completion fish | source       # ~/.config/fish/config.fish',
        examples('completion bash'),
      ].join('\n'),
    )
    .action((name) => out.result({ shell: name, script: scripts[name] }, scripts[name].trimEnd().split('\n')))

  // The scripts call this command with the words of the line, up to the word at the cursor.
  program
    .command('complete', { hidden: true })
    .argument('[words...]')
    .action(async (words) => {
      const profiles = await readProfiles(env, () => undefined).catch(() => new Map())
      for (const line of complete(program, words, [...profiles.keys()])) out.line(line, line)
    })
}

/** Printed instead of words if the argument is a file name. */
const FILES = ':files'

/** The possible completions of the last word. Bash passes `--status=active` as three words. */
export function complete(
  program: CommandUnknownOpts,
  line: readonly string[],
  profiles: readonly string[],
): string[] {
  const words = line.at(-1) === '=' ? [...line, ''] : line
  const [partial = '', ...before] = words.filter((word) => word !== '=').toReversed()
  let command = program
  let option: Option | undefined
  let position = 0
  for (const word of before.toReversed()) {
    if (option !== undefined) option = undefined
    else if (word.startsWith('-'))
      option = word.includes('=') ? undefined : withValue(optionsOf(command), word)
    else {
      const found = command.commands.find((one) => one.name() === word)
      if (found === undefined) position++
      else command = found
    }
  }
  if (option !== undefined) return valuesOf(option, partial, profiles)
  if (partial.startsWith('--') && partial.includes('=')) {
    const at = partial.indexOf('=')
    const [name, value] = [partial.slice(0, at), partial.slice(at + 1)]
    const found = withValue(optionsOf(command), name)
    return found === undefined ? [] : valuesOf(found, value, profiles).map((each) => `${name}=${each}`)
  }
  if (partial.startsWith('-'))
    return starting(
      partial,
      optionsOf(command).map(({ long }) => long!),
    )
  if (command.commands.length > 0) {
    return starting(
      partial,
      command
        .createHelp()
        .visibleCommands(command)
        .map((one) => one.name()),
    )
  }
  const argument = command.registeredArguments[position]
  if (argument?.name() === 'file') return [FILES]
  return starting(partial, argument?.argChoices ?? [])
}

const optionsOf = (command: CommandUnknownOpts): Option[] => {
  const help = command.createHelp()
  return [...help.visibleOptions(command), ...help.visibleGlobalOptions(command)]
}

const withValue = (options: readonly Option[], name: string) =>
  options.find(({ long, short, required }) => required && [long, short].includes(name))

/** The possible values of an option. In a list with commas, the last member is completed. */
function valuesOf({ long, argChoices = [] }: Option, partial: string, profiles: readonly string[]): string[] {
  if (long === '--profile') return starting(partial, profiles)
  const at = long === '--events' ? partial.lastIndexOf(',') + 1 : 0
  return starting(partial.slice(at), argChoices).map((member) => partial.slice(0, at) + member)
}

const starting = (partial: string, names: readonly string[]) =>
  [...new Set(names)].filter((name) => name.startsWith(partial))
