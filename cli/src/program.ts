import { Command, Help } from '@commander-js/extra-typings'
import type { CommandUnknownOpts } from '@commander-js/extra-typings'
import { readFileSync } from 'node:fs'
import { auditLogCommand } from './account/audit-log.ts'
import { keyCommands } from './account/keys.ts'
import { memberCommands } from './account/members.ts'
import { loginCommands } from './account/login.ts'
import { checkoutCommands } from './checkout/checkout.ts'
import { completionCommands } from './completion/completion.ts'
import type { Context } from './command/context.ts'
import type { Stream } from './command/output.ts'
import { oneOf } from './command/parsers.ts'
import { importCommand } from './import/import.ts'
import { licenceCommands } from './licences/licences.ts'
import { listenCommand } from './listen/listen.ts'
import { metricsCommand } from './metrics/metrics.ts'
import { paymentCommands } from './payments/payments.ts'
import { planCommands } from './plans/plans.ts'
import { saleCommands } from './sales/sales.ts'
import { applyCommand } from './products/apply.ts'
import { exportCommand } from './products/catalogue.ts'
import { triggerCommand } from './trigger/trigger.ts'
import { deliveryCommands } from './webhooks/deliveries.ts'
import { endpointCommands } from './webhooks/endpoints.ts'
import { eventCommands } from './webhooks/events.ts'

/** Every command, in the order in which the help lists them. */
export function createProgram(context: Context, stdout: Stream, stderr: Stream) {
  const program = new Program('licensing')
    .description('The command line of the licensing service')
    .option('--url <url>', 'address of the licensing service (LICENSING_URL)')
    .option('--key <key>', 'API key (LICENSING_API_KEY)')
    .option('--app <id>', 'id of the application (LICENSING_APP)')
    .option('--profile <name>', 'profile of licensing login (LICENSING_PROFILE)')
    .option('--json', 'print results and errors as JSON')
    .version(version(), '-v, --version', 'show the version')
    .helpOption('-h, --help', 'show the help of a command')
    .helpCommand(false)
    .exitOverride()
    .configureOutput({
      writeOut: (text) => stdout.write(text),
      writeErr: (text) => stderr.write(text),
      // The caller reports errors, as JSON if asked.
      outputError: () => undefined,
    })
    .configureHelp({
      showGlobalOptions: true,
      // By default the description contains the choices; the help prints them separately.
      argumentDescription: ({ description }) => description,
      optionDescription: (option) => {
        const text = new Help().optionDescription(option)
        return option.mandatory && option.defaultValue === undefined ? `${text} (required)` : text
      },
    })
    .addHelpText('after', '\nExit codes: 0 done, 1 refused or failed, 2 wrong usage.')
  loginCommands(program, context)
  licenceCommands(program, context)
  planCommands(program, context)
  checkoutCommands(program, context)
  saleCommands(program, context)
  paymentCommands(program, context)
  endpointCommands(program, context)
  deliveryCommands(program, context)
  eventCommands(program, context)
  keyCommands(program, context)
  memberCommands(program, context)
  auditLogCommand(program, context)
  metricsCommand(program, context)
  listenCommand(program, context)
  triggerCommand(program, context)
  exportCommand(program, context)
  applyCommand(program, context)
  importCommand(program, context)
  completionCommands(program, context)
  for (const command of program.commands) {
    if (command.commands.length > 0) command.helpCommand('help [command]', 'Show the help of a command')
  }
  helpCommand(program)
  // Otherwise `licences nonsense --help` shows the help of licences.
  program.on('beforeAllHelp', ({ command }: { command: CommandUnknownOpts }) => {
    const name = command.args.find((argument) => !argument.startsWith('-'))
    const known = command
      .createHelp()
      .visibleCommands(command)
      .map((one) => one.name())
    if (known.length > 0 && name !== undefined) oneOf(known, 'command')(name)
  })
  return program
}

/** Takes `--url` after `endpoints edit` for the URL of the endpoint. By default the global option would get it. */
class Program extends Command {
  override parseOptions(args: string[]) {
    const at = args.findIndex((word, i) => word === 'edit' && args[i - 1] === 'endpoints')
    if (at < 0) return super.parseOptions(args)
    const [others, own]: [string[], string[]] = [args.slice(0, at), []]
    for (let i = at; i < args.length; i += 1) {
      const word = args[i]!
      if (word === '--url') own.push(...args.slice(i, (i += 1) + 1))
      else (word.startsWith('--url=') ? own : others).push(word)
    }
    const { operands, unknown } = super.parseOptions(others)
    return { operands, unknown: [...unknown, ...own] }
  }
}

/** Shows the help of a command, also of a command in a group: `help licences find`. */
function helpCommand(program: CommandUnknownOpts) {
  program
    .command('help')
    .description('Show the help of a command')
    .argument('[command...]')
    .action(async (names) => {
      let command = program
      for (const name of names) {
        const found = command.commands.find((one) => one.name() === name)
        // Commander reports the unknown command, with a suggestion.
        if (found === undefined) return command.parseAsync([name], { from: 'user' }).then(() => undefined)
        command = found
      }
      command.help()
    })
}

/** The sources and the bundle are both in a folder beside package.json. */
function version(): string {
  const text = readFileSync(new URL('../package.json', import.meta.url), 'utf8')
  return (JSON.parse(text) as { version: string }).version
}
