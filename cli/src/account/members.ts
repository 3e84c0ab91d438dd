import type { CommandUnknownOpts } from '@commander-js/extra-typings'
import { Option } from '@commander-js/extra-typings'
import type { Schemas } from '@licensing/sdk/backend'
import type { Context } from '../command/context.ts'
import { examples } from '../command/examples.ts'
import { limitOption, listRows } from '../command/lists.ts'
import { members, oneOf, text } from '../command/parsers.ts'

const roles = members<Schemas['Member']['role']>({ owner: true, admin: true, support: true, viewer: true })

export function memberCommands(program: CommandUnknownOpts, { out, service, confirm }: Context): void {
  const group = program.command('members').description('Add and remove people who sign in to the portal')

  group
    .command('list')
    .description('List members, including removed ones')
    .addOption(limitOption())
    .addHelpText('after', examples('members list'))
    .action(async ({ limit }) => {
      const { backend } = await service()
      await listRows(out, backend.rows('/v1/members'), limit, [
        'id',
        'email',
        'role',
        'app_id',
        'last_sign_in_at',
        'removed_at',
        'name',
      ])
    })

  const role = new Option('--role <role>', 'what the person may do')
    .argParser(oneOf(roles, 'role'))
    .makeOptionMandatory()
  role.argChoices = roles
  group
    .command('add')
    .description('Add a member. No mail is sent')
    .argument('<email>', 'address that the identity provider has verified', text)
    .addOption(role)
    .option('--bound-to <app>', 'id of the only application that the member may use; default: all', text)
    .addHelpText('after', examples('members add ann@example.com --role support'))
    .action(async (email, { role: asked, boundTo }) => {
      const { backend } = await service()
      const body = { email, role: asked, ...(boundTo !== undefined && { app_id: boundTo }) }
      out.record(await backend.post('/v1/members', { body }))
    })

  group
    .command('remove')
    .description('Remove a member, whose sessions end')
    .argument('<id>', 'id of the member', text)
    .option('--yes', 'do not ask')
    .addHelpText('after', examples('members remove usr_01k9zj3v8qe5ktw2m4x6r7n8ab'))
    .action(async (id, options) => {
      const { backend } = await service()
      await confirm(`Remove member ${id}?`, options)
      await backend.delete('/v1/members/{member_id}', { path: { member_id: id } })
      out.result({ id, status: 'removed' }, [`${id} removed`])
    })
}
