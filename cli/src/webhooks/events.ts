import type { CommandUnknownOpts } from '@commander-js/extra-typings'
import type { Schemas } from '@licensing/sdk/backend'
import type { Context } from '../command/context.ts'
import { examples } from '../command/examples.ts'
import { limitOption, listRows } from '../command/lists.ts'
import { wholeNumber } from '../command/parsers.ts'

/** The maximum number of events in one call. */
const PAGE = 200

export function eventCommands(program: CommandUnknownOpts, { out, service }: Context): void {
  const group = program.command('events').description('Read the events of the account')

  group
    .command('list')
    .description('List events of the account, oldest first')
    .option('--after <sequence>', 'start after this sequence; default: the newest events', wholeNumber(0))
    .addOption(limitOption())
    .addHelpText('after', examples('events list', 'events list --after 41 --json'))
    .action(async ({ after, limit }) => {
      const { backend } = await service()
      const newest = async () => {
        const { next_after: latest } = await backend.get('/v1/events', { query: { after: 'latest' } })
        return Math.max(0, latest - limit)
      }
      async function* events(start: number): AsyncGenerator<Schemas['Event']> {
        for (let next = start; ;) {
          const page = await backend.get('/v1/events', {
            query: { after: next, limit: Math.min(limit + 1, PAGE) },
          })
          yield* page.data
          if (page.data.length === 0) return
          next = page.next_after
        }
      }
      await listRows(out, events(after ?? (await newest())), limit, [
        'sequence',
        'id',
        'type',
        'created_at',
        'application_id',
        ['object', ({ data }) => data.object],
      ])
    })
}
