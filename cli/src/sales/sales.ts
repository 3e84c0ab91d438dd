import type { CommandUnknownOpts } from '@commander-js/extra-typings'
import type { Context } from '../command/context.ts'
import { examples } from '../command/examples.ts'
import { endTime, pairs, sinceTime, text, wholeNumber } from '../command/parsers.ts'
import { findPlanId } from '../plans/find-plan.ts'

const cents = wholeNumber(0)

/** Reports of sales in another shop, for corrections by hand. Without a time, they happened now. */
export function saleCommands(program: CommandUnknownOpts, { out, service }: Context): void {
  const group = program.command('sales').description('Report sales in another shop, and what happens to them')

  group
    .command('show')
    .description('Show a sale, with all that was reported about it')
    .argument('<sale>', 'id of the sale in the other shop', text)
    .addHelpText('after', examples('sales show order-2026-0042'))
    .action(async (sale) => {
      const { backend, appId } = await service()
      const path = { app_id: await appId(), sale_id: sale }
      out.record(await backend.get('/v1/apps/{app_id}/sale-events/{sale_id}', { path }))
    })

  group
    .command('report')
    .description('Report a sale, which provisions a licence')
    .argument('<sale>', 'id of the sale in the other shop', text)
    .requiredOption('--plan <plan>', 'id or code of the plan', text)
    .requiredOption('--external-ref <ref>', 'your reference of the customer', text)
    .requiredOption('--amount <number>', 'in minor units, such as cents', cents)
    .requiredOption('--currency <code>', 'such as eur', text)
    .option('--occurred-at <time>', 'when it was sold (default: now)', sinceTime)
    .option('--expires-on <time>', 'end of the licence', endTime)
    .option('--metadata <name=value>', 'an entry for the licence; may be repeated', pairs)
    .addHelpText(
      'after',
      examples('sales report order-2026-0042 --plan pro --external-ref ann --amount 4900 --currency eur'),
    )
    .action(async (sale, { plan, externalRef, occurredAt, expiresOn, ...fields }) => {
      const { backend, appId } = await service()
      const app_id = await appId()
      const body = {
        ...fields,
        sale_id: sale,
        plan_id: await findPlanId(backend, app_id, plan),
        external_ref: externalRef,
        occurred_at: occurredAt ?? now(),
        ...(expiresOn !== undefined && { expires_on: expiresOn }),
      }
      out.record(await backend.post('/v1/apps/{app_id}/sale-events', { path: { app_id }, body }))
    })

  group
    .command('refund')
    .description('Report a refund or a chargeback of a sale')
    .argument('<sale>', 'id of the sale in the other shop', text)
    .requiredOption('--id <id>', 'the shop’s id of the refund', text)
    .requiredOption('--amount <number>', 'in minor units, such as cents', cents)
    .option('--chargeback', 'it is a chargeback')
    .option('--renewal <id>', 'the refunded renewal (default: the first payment)', text)
    .option('--occurred-at <time>', 'when it was refunded (default: now)', sinceTime)
    .addHelpText('after', examples('sales refund order-2026-0042 --id refund-17 --amount 4900'))
    .action(async (sale, { id, amount, chargeback, renewal, occurredAt }) => {
      const { backend, appId } = await service()
      const path = { app_id: await appId(), sale_id: sale }
      const body = {
        refund_id: id,
        amount,
        occurred_at: occurredAt ?? now(),
        ...(chargeback && { kind: 'chargeback' as const }),
        ...(renewal !== undefined && { renewal_id: renewal }),
      }
      out.record(await backend.post('/v1/apps/{app_id}/sale-events/{sale_id}/refunds', { path, body }))
    })

  group
    .command('renew')
    .description('Report a renewal of a sale')
    .argument('<sale>', 'id of the sale in the other shop', text)
    .requiredOption('--id <id>', 'the shop’s id of the renewal', text)
    .requiredOption('--amount <number>', 'in minor units, such as cents', cents)
    .requiredOption('--currency <code>', 'such as eur', text)
    .requiredOption('--expires-on <time>', 'the new end', endTime)
    .option('--occurred-at <time>', 'when it was paid (default: now)', sinceTime)
    .addHelpText(
      'after',
      examples(
        'sales renew order-2026-0042 --id order-2027-0042 --amount 4900 --currency eur --expires-on 2028-11-15',
      ),
    )
    .action(async (sale, { id, expiresOn, occurredAt, ...money }) => {
      const { backend, appId } = await service()
      const path = { app_id: await appId(), sale_id: sale }
      const body = { renewal_id: id, ...money, expires_on: expiresOn, occurred_at: occurredAt ?? now() }
      out.record(await backend.post('/v1/apps/{app_id}/sale-events/{sale_id}/renewals', { path, body }))
    })

  group
    .command('cancel')
    .description('Report that a sale was cancelled')
    .argument('<sale>', 'id of the sale in the other shop', text)
    .option('--ends-on <time>', 'when the purchase ends (default: when it was cancelled)', endTime)
    .option('--occurred-at <time>', 'when it was cancelled (default: now)', sinceTime)
    .addHelpText('after', examples('sales cancel order-2026-0042 --ends-on 2027-11-01'))
    .action(async (sale, { endsOn, occurredAt }) => {
      const { backend, appId } = await service()
      const path = { app_id: await appId(), sale_id: sale }
      const body = {
        occurred_at: occurredAt ?? now(),
        ...(endsOn !== undefined && { ends_on: endsOn }),
      }
      out.record(await backend.post('/v1/apps/{app_id}/sale-events/{sale_id}/cancellation', { path, body }))
    })
}

const now = () => new Date().toISOString()
