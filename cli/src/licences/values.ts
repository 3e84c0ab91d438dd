import type { CommandUnknownOpts } from '@commander-js/extra-typings'
import type { Context } from '../command/context.ts'
import { examples } from '../command/examples.ts'
import { endTime, text } from '../command/parsers.ts'

const ID = 'lic_01k9zj3v8qe5ktw2m4x6r7n8ab'

/** Commands for the values of one licence. */
export function valueCommands(group: CommandUnknownOpts, { out, service, confirm }: Context): void {
  group
    .command('entitlements')
    .description('List what products get from a licence, and where each value is from')
    .argument('<id>', 'id of the licence', text)
    .addHelpText('after', examples(`licences entitlements ${ID}`))
    .action(async (id) => {
      const { backend } = await service()
      const path = { licence_id: id }
      const { effective, overrides } = await backend.get('/v1/licences/{licence_id}', { path })
      const rows = effective.map(({ key, value, from }) => {
        const override = from === 'override' ? overrides.find((each) => each.key === key) : undefined
        return { key, value, from, ends_on: override?.ends_on ?? null, note: override?.note ?? null }
      })
      if (rows.length === 0 && !out.json) return out.message('the licence has no entitlements')
      out.list(rows, ['key', 'value', 'from', 'ends_on', 'note'])
    })

  group
    .command('set-override')
    .description('Give one licence another value of an entitlement')
    .argument('<id>', 'id of the licence', text)
    .argument('<key>', 'key of the entitlement', text)
    .argument('<value>', 'true or false, or a whole number', text)
    .option('--ends-on <time>', 'when the override ends; default: never', endTime)
    .option('--note <text>', 'why the licence has it', text)
    .addHelpText(
      'after',
      examples(
        `licences set-override ${ID} projects 500`,
        `licences set-override ${ID} export_pdf true --ends-on 2035-01-31 --note ticket-812`,
      ),
    )
    .action(async (id, key, value, { endsOn, note }) => {
      const { backend } = await service()
      const body = {
        value,
        ...(endsOn !== undefined && { ends_on: endsOn }),
        ...(note !== undefined && { note }),
      }
      const path = { licence_id: id, key }
      out.record(await backend.put('/v1/licences/{licence_id}/overrides/{key}', { path, body }))
    })

  group
    .command('remove-override')
    .description('Remove an override: the licence has the value of its snapshot again')
    .argument('<id>', 'id of the licence', text)
    .argument('<key>', 'key of the entitlement', text)
    .addHelpText('after', examples(`licences remove-override ${ID} projects`))
    .action(async (id, key) => {
      const { backend } = await service()
      const path = { licence_id: id, key }
      await backend.delete('/v1/licences/{licence_id}/overrides/{key}', { path })
      out.result({ licence_id: id, key }, [`${id} has no override of ${key}`])
    })

  group
    .command('take-plan-values')
    .description('Replace the snapshot of a licence by the current values of its plan; overrides stay')
    .argument('<id>', 'id of the licence', text)
    .option('--yes', 'do not ask')
    .addHelpText('after', examples(`licences take-plan-values ${ID}`))
    .action(async (id, options) => {
      const { backend } = await service()
      await confirm(`Replace the entitlements of ${id} by the values of its plan?`, options)
      const path = { licence_id: id }
      out.record(await backend.post('/v1/licences/{licence_id}/take-plan-values', { path }))
    })
}
