import type { CommandUnknownOpts } from '@commander-js/extra-typings'
import { Option } from '@commander-js/extra-typings'
import type { Schemas } from '@licensing/sdk/backend'
import type { Context } from '../command/context.ts'
import { examples } from '../command/examples.ts'
import { limitOption, listRows } from '../command/lists.ts'
import { members, severalOf, text } from '../command/parsers.ts'

type Scope = Schemas['ApiKey']['scopes'][number]

const scopes = members<Scope>({ admin: true, read: true, revoke: true, issue: true })

export function keyCommands(program: CommandUnknownOpts, { out, service, confirm }: Context): void {
  const group = program.command('keys').description('Create and revoke API keys')

  group
    .command('list')
    .description('List API keys, without the keys themselves')
    .addOption(limitOption())
    .addHelpText('after', examples('keys list'))
    .action(async ({ limit }) => {
      const { backend } = await service()
      await listRows(out, backend.rows('/v1/api-keys'), limit, [
        'id',
        ['ends_with', ({ last_four: end }) => end],
        ['scopes', ({ scopes: found }) => found.join(',')],
        'app_id',
        'last_used_at',
        'revoked_at',
        'name',
      ])
    })

  const scope = new Option('--scope <scope>', 'what the key may do; may be repeated')
    .argParser(severalOf(scopes, 'scope'))
    .makeOptionMandatory()
  scope.argChoices = scopes
  group
    .command('create')
    .description('Create an API key, and show it once')
    .argument('<name>', 'name of the key', text)
    .addOption(scope)
    .option('--bound-to <app>', 'id of the only application that the key may use; default: all', text)
    .addHelpText('after', examples('keys create ci --scope read --scope issue'))
    .action(async (name, { scope: asked, boundTo }) => {
      const { backend } = await service()
      const body = { name, scopes: [...asked], ...(boundTo !== undefined && { app_id: boundTo }) }
      const made = await backend.post('/v1/api-keys', { body })
      out.record(made)
      // The key is null if an earlier try created it and its answer was lost. The service shows a secret only once.
      if (made.key === null) out.message('the key was created, but cannot be shown again: revoke it')
    })

  group
    .command('revoke')
    .description('Revoke an API key, permanently')
    .argument('<id>', 'id of the key', text)
    .option('--yes', 'do not ask')
    .addHelpText('after', examples('keys revoke key_01k9zj3v8qe5ktw2m4x6r7n8ab'))
    .action(async (id, options) => {
      const { backend } = await service()
      await confirm(`Revoke API key ${id} permanently?`, options)
      await backend.delete('/v1/api-keys/{key_id}', { path: { key_id: id } })
      out.result({ id, status: 'revoked' }, [`${id} revoked`])
    })
}
