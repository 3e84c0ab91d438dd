import type { CommandUnknownOpts } from '@commander-js/extra-typings'
import { amountText } from '@licensing/money/amounts'
import type { Context } from '../command/context.ts'
import { examples } from '../command/examples.ts'
import { limitOption, listRows } from '../command/lists.ts'
import { sinceTime, text, untilTime } from '../command/parsers.ts'

const ID = 'lic_01k9zj3v8qe5ktw2m4x6r7n8ab'

export function paymentCommands(program: CommandUnknownOpts, { out, service }: Context): void {
  const group = program.command('payments').description('Read payments, refunds and fees')

  const list = (name: string, description: string) =>
    group
      .command(name)
      .description(description)
      .option('--licence <id>', 'only of this licence', text)
      .option('--charge-ref <id>', 'only of this charge at the payment processor', text)
      .option('--since <time>', 'only at or after this time', sinceTime)
      .option('--until <time>', 'only before this time', untilTime)
      .addOption(limitOption())

  list('list', 'List payments, newest first')
    .addHelpText('after', examples('payments list', `payments list --licence ${ID} --json`))
    .action(async ({ limit, ...filters }) => {
      const { backend, appId } = await service()
      const request = { path: { app_id: await appId() }, query: queryOf(filters) }
      await listRows(out, backend.rows('/v1/apps/{app_id}/payments', request), limit, [
        'id',
        ['amount', ({ amount, currency }) => amountText(amount, currency)],
        ['fee', ({ fee_minor: fee, currency }) => amountText(fee, currency)],
        'external_ref',
        'licence_id',
        'charge_ref',
        'occurred_at',
      ])
    })

  list('refunds', 'List refunds and chargebacks, newest first')
    .addHelpText('after', examples('payments refunds --since 2026-11-01'))
    .action(async ({ limit, ...filters }) => {
      const { backend, appId } = await service()
      const request = { path: { app_id: await appId() }, query: queryOf(filters) }
      await listRows(out, backend.rows('/v1/apps/{app_id}/refunds', request), limit, [
        'id',
        'lane',
        'status',
        ['amount', ({ amount, currency }) => amountText(amount, currency)],
        'licence_id',
        'charge_ref',
        'occurred_at',
      ])
    })

  group
    .command('fees')
    .description('List the fees of all applications, newest first')
    .addOption(limitOption())
    .addHelpText('after', examples('payments fees --limit 500'))
    .action(async ({ limit }) => {
      const { backend } = await service()
      await listRows(out, backend.rows('/v1/fees'), limit, [
        'id',
        'kind',
        ['amount', ({ amount_minor: amount, currency }) => amountText(amount, currency)],
        'period',
        'charge_ref',
        'occurred_at',
      ])
    })

  group
    .command('spend-cap')
    .description('Show the cap on the fees of a month, and what is spent')
    .addHelpText('after', examples('payments spend-cap'))
    .action(async () => {
      const { backend } = await service()
      out.record(await backend.get('/v1/spend-cap'))
    })
}

interface Filters {
  readonly chargeRef?: string | undefined
}

const queryOf = <Others extends Filters>({ chargeRef, ...others }: Others) => ({
  ...others,
  ...(chargeRef !== undefined && { charge_ref: chargeRef }),
})
