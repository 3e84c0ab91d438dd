import type { CommandUnknownOpts } from '@commander-js/extra-typings'
import type { Context } from '../command/context.ts'
import { examples } from '../command/examples.ts'
import { limitOption, listRows } from '../command/lists.ts'
import { sinceTime, text, untilTime } from '../command/parsers.ts'

export function auditLogCommand(program: CommandUnknownOpts, { out, service }: Context): void {
  program
    .command('audit-log')
    .description('List who changed what, newest first')
    .option(
      '--actor <actor>',
      'only by this API key or member, or by operator, mail, processor or notifier',
      text,
    )
    .option('--operation <operation>', 'only this operation of the API, or command of the operator', text)
    .option('--of <app>', 'only of this application', text)
    .option('--since <time>', 'only at or after this time', sinceTime)
    .option('--until <time>', 'only before this time', untilTime)
    .addOption(limitOption())
    .addHelpText(
      'after',
      examples('audit-log', 'audit-log --operation revokeApiKey --since 2026-11-01 --json'),
    )
    .action(async ({ limit, of, ...filters }) => {
      const { backend } = await service()
      const query = { ...filters, ...(of !== undefined && { app: of }) }
      await listRows(out, backend.rows('/v1/audit-log', { query }), limit, [
        'at',
        ['actor', ({ actor, actor_name: name }) => (name === null ? actor : `${actor} (${name})`)],
        'operation',
        'resource_id',
        ['changes', ({ changes }) => Object.keys(changes).join(', ')],
        'request_id',
      ])
    })
}
