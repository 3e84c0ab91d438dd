import type { CommandUnknownOpts } from '@commander-js/extra-typings'
import { text as readAll } from 'node:stream/consumers'
import type { Context } from '../command/context.ts'
import { examples } from '../command/examples.ts'
import { UsageError } from '../command/failures.ts'
import { changeProfiles, readProfiles } from '../command/profiles.ts'
import { checkedKey, checkedUrl, DEFAULT_PROFILE, value } from '../command/settings.ts'
import { ask, isTerminal } from '../command/terminal.ts'

export function loginCommands(program: CommandUnknownOpts, context: Context): void {
  const { env, out, service, flags } = context
  const warn = (message: string) => out.message(message)
  const profileName = () => value(flags().profile) ?? value(env['LICENSING_PROFILE']) ?? DEFAULT_PROFILE

  program
    .command('login')
    .description('Store the address and an API key in a profile, after the service has accepted them')
    .addHelpText(
      'after',
      [
        '',
        'Without --url or --key, and without their variables, login asks on a terminal. Elsewhere it reads the key from',
        'standard input.',
        examples(
          'login --url https://licensing.example.com',
          'login --url https://licensing.example.com --profile production < key.txt',
        ),
      ].join('\n'),
    )
    .action(async () => {
      const name = profileName()
      if (!/^[\w.-]{1,40}$/.test(name)) {
        throw new UsageError(
          `the name of a profile must have up to 40 letters, digits, _, . and -, not ${name}`,
        )
      }
      const url = checkedUrl(value(flags().url) ?? value(env['LICENSING_URL']) ?? (await missingUrl(context)))
      const key = checkedKey(
        value(flags().key) ?? value(env['LICENSING_API_KEY']) ?? (await missingKey(context)),
      )
      out.hide(key)
      const app = value(flags().app) ?? value(env['LICENSING_APP'])
      const profile = { url, key, ...(app !== undefined && { app }) }
      const self = await context
        .at({ url, apiKey: key, appId: app, profile: name })
        .backend.get('/v1/api-keys/self')
      const file = await changeProfiles(env, (profiles) => new Map([...profiles, [name, profile]]))
      out.message(`stored in ${file}`)
      out.record({ profile: name, url, account_id: self.account_id, name: self.name, scopes: self.scopes })
    })

  program
    .command('logout')
    .description('Remove a profile; the API key stays valid')
    .addHelpText('after', examples('logout', 'logout --profile production'))
    .action(async () => {
      const name = profileName()
      if (!(await readProfiles(env, warn)).has(name)) throw new UsageError(`there is no profile ${name}`)
      await changeProfiles(env, (profiles) => new Map([...profiles].filter(([other]) => other !== name)))
      out.result({ profile: name }, [`removed profile ${name}`])
    })

  program
    .command('whoami')
    .description('Show the API key that is used, its account and scopes')
    .addHelpText('after', examples('whoami', 'whoami --profile production --json'))
    .action(async () => {
      const { backend, settings } = await service()
      const self = await backend.get('/v1/api-keys/self')
      out.record({ url: settings.url, profile: settings.profile ?? null, ...self })
    })
}

async function missingUrl({ terminal }: Context): Promise<string> {
  const answer = isTerminal(terminal) ? await ask(terminal, 'Address of the licensing service: ') : ''
  if (answer?.trim()) return answer.trim()
  throw new UsageError('the address of the licensing service is missing: set LICENSING_URL or use --url')
}

/** Asks for the API key without showing it. Without a terminal, reads it from standard input. */
async function missingKey({ terminal }: Context): Promise<string> {
  const { input } = terminal
  const read = isTerminal(terminal)
    ? await ask(terminal, 'API key: ', { isHidden: true })
    : input !== undefined && !input.isTTY
      ? await readAll(input)
      : ''
  if (read?.trim()) return read.trim()
  throw new UsageError(
    'the API key is missing: set LICENSING_API_KEY, use --key or pass it on standard input',
  )
}
