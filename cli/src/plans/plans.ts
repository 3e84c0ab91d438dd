import type { Command, CommandUnknownOpts, OptionValues } from '@commander-js/extra-typings'
import type { Schemas } from '@licensing/sdk/backend'
import type { Context } from '../command/context.ts'
import { examples } from '../command/examples.ts'
import { UsageError } from '../command/failures.ts'
import { limitOption, listRows, memberOption } from '../command/lists.ts'
import { members, nulls, pairs, text, texts, wholeNumber } from '../command/parsers.ts'
import { readCatalogue, withEveryField } from '../products/catalogue.ts'
import { findPlan, findPlanId } from './find-plan.ts'

const statuses = members<Schemas['Plan']['status']>({ active: true, retired: true })
const modes = members<Schemas['Price']['mode']>({ payment: true, subscription: true })

export function planCommands(program: CommandUnknownOpts, { out, service, confirm }: Context): void {
  const group = program.command('plans').description('Create and change plans and their prices')

  group
    .command('list')
    .description('List plans, newest first')
    .addOption(memberOption('--status <status>', 'only with this status', statuses))
    .addOption(limitOption())
    .addHelpText('after', examples('plans list', 'plans list --status active --json'))
    .action(async ({ limit, status }) => {
      const { backend, appId } = await service()
      const path = { app_id: await appId() }
      const query = status === undefined ? {} : { status }
      await listRows(out, backend.rows('/v1/apps/{app_id}/plans', { path, query }), limit, [
        'id',
        'code',
        'status',
        'active_licences',
        'name',
      ])
    })

  group
    .command('show')
    .description('Show one plan')
    .argument('<plan>', 'id or code of the plan', text)
    .addHelpText('after', examples('plans show pro'))
    .action(async (plan) => {
      const { backend, appId } = await service()
      out.record(await findPlan(backend, await appId(), plan))
    })

  withFields(
    group
      .command('create')
      .description('Create a plan; its entitlements must exist')
      .argument('<code>', 'code of the plan, unique in the application', text),
  )
    .addHelpText(
      'after',
      examples('plans create pro --name Pro', 'plans create team --value seats=10 --value export_pdf=true'),
    )
    .action(async (code, { name = code, value, trialDays, metadata }) => {
      const { backend, appId } = await service()
      const body = withEveryField({
        code,
        name,
        ...(value !== undefined && { entitlements: entitlementsOf(value) }),
        ...(trialDays !== undefined && { trial_days: trialDays || null }),
        ...(metadata !== undefined && { metadata }),
      })
      out.record(await backend.post('/v1/apps/{app_id}/plans', { path: { app_id: await appId() }, body }))
    })

  withFields(
    group
      .command('set')
      .description('Change fields of a plan; other fields stay as they are')
      .argument('<plan>', 'id or code of the plan', text)
      .option('--code <code>', 'code of the plan', text),
  )
    .option('--default <key>', 'gives an entitlement its default again; may be repeated', texts)
    .option('--remove-metadata <name>', 'removes an entry; may be repeated', nulls)
    .addHelpText(
      'after',
      examples('plans set pro --value seats=20', 'plans set pro --trial-days 14 --metadata sku=A-1'),
    )
    .action(
      async (plan, { name, code, value, default: defaults = [], trialDays, metadata, removeMetadata }) => {
        const body = withEveryField({
          ...(name !== undefined && { name }),
          ...(code !== undefined && { code }),
          ...(trialDays !== undefined && { trial_days: trialDays || null }),
          ...((metadata ?? removeMetadata) && { metadata: { ...metadata, ...removeMetadata } }),
        })
        const hasValues = value !== undefined || defaults.length > 0
        if (Object.keys(body).length === 0 && !hasValues) {
          throw new UsageError('nothing to set: name a field, see licensing plans set --help')
        }
        const { backend, appId } = await service()
        const path = { app_id: await appId() }
        const { id, code: found } = await findPlan(backend, path.app_id, plan)
        // The service replaces the values of a plan as a whole.
        const before = hasValues
          ? (await readCatalogue(backend, path.app_id)).plans.get(found)?.values
          : undefined
        const values = new Map([...(before ?? []), ...Object.entries(value ?? {})])
        for (const key of defaults) values.delete(key)
        const all = hasValues && { entitlements: entitlementsOf(Object.fromEntries(values)) }
        out.record(
          await backend.patch('/v1/apps/{app_id}/plans/{plan_id}', {
            path: { ...path, plan_id: id },
            body: { ...body, ...all },
          }),
        )
      },
    )

  group
    .command('archive')
    .description('Retire a plan: its active licences are suspended, and no new ones are issued')
    .argument('<plan>', 'id or code of the plan', text)
    .option('--yes', 'do not ask')
    .addHelpText('after', examples('plans archive old-pro'))
    .action(async (plan, options) => {
      const { backend, appId } = await service()
      await confirm(`Archive plan ${plan} and suspend its active licences?`, options)
      const path = await pathOf(backend, await appId(), plan)
      const archived = await backend.post('/v1/apps/{app_id}/plans/{plan_id}/archive', { path })
      out.result(archived, [
        `${archived.id} ${archived.status}, suspended licences: ${archived.suspended_licences}`,
      ])
    })

  group
    .command('restore')
    .description('Activate a retired plan; its suspended licences stay suspended')
    .argument('<plan>', 'id or code of the plan', text)
    .addHelpText('after', examples('plans restore old-pro'))
    .action(async (plan) => {
      const { backend, appId } = await service()
      const path = await pathOf(backend, await appId(), plan)
      const restored = await backend.post('/v1/apps/{app_id}/plans/{plan_id}/restore', { path })
      out.result(restored, [`${restored.id} ${restored.status}`])
    })

  group
    .command('price')
    .description('Show the price of a plan at the payment processor')
    .argument('<plan>', 'id or code of the plan', text)
    .addHelpText('after', examples('plans price pro'))
    .action(async (plan) => {
      const { backend, appId } = await service()
      const path = await pathOf(backend, await appId(), plan)
      out.record(await backend.get('/v1/apps/{app_id}/plans/{plan_id}/price', { path }))
    })

  group
    .command('set-price')
    .description('Sell a plan at a price of the payment processor')
    .argument('<plan>', 'id or code of the plan', text)
    .requiredOption('--price-id <id>', 'id of the price at the processor', text)
    .requiredOption('--amount <amount>', 'in minor units: 4900 is 49.00', wholeNumber(0))
    .requiredOption('--currency <code>', 'three letters', text)
    .addOption(
      memberOption('--mode <mode>', 'one payment or a subscription', modes).default('payment' as const),
    )
    .option(
      '--period-months <months>',
      'after how many months the licence of a payment expires',
      wholeNumber(1),
    )
    .option('--updates-months <months>', 'how many months of updates a payment includes', wholeNumber(1, 120))
    .addHelpText('after', examples('plans set-price pro --price-id price_1Q --amount 4900 --currency usd'))
    .action(async (plan, { priceId, amount, currency, mode, periodMonths, updatesMonths }) => {
      const { backend, appId } = await service()
      const path = await pathOf(backend, await appId(), plan)
      const body = {
        price_id: priceId,
        amount,
        currency,
        mode,
        ...(periodMonths !== undefined && { period_months: periodMonths }),
        ...(updatesMonths !== undefined && { updates_months: updatesMonths }),
      }
      out.record(await backend.put('/v1/apps/{app_id}/plans/{plan_id}/price', { path, body }))
    })

  group
    .command('remove-price')
    .description('Stop selling a plan; its licences stay as they are')
    .argument('<plan>', 'id or code of the plan', text)
    .addHelpText('after', examples('plans remove-price pro'))
    .action(async (plan) => {
      const { backend, appId } = await service()
      const path = await pathOf(backend, await appId(), plan)
      await backend.delete('/v1/apps/{app_id}/plans/{plan_id}/price', { path })
      out.result({ plan_id: path.plan_id }, [`${path.plan_id} has no price`])
    })
}

/** The fields of a plan that `create` and `set` have in common. */
const withFields = <Arguments extends unknown[], Options extends OptionValues>(
  command: Command<Arguments, Options>,
) =>
  command
    .option('--name <name>', 'display name; default for a new plan: the code', text)
    .option('--value <key=value>', 'the value of an entitlement; may be repeated', pairs)
    .option('--trial-days <days>', 'products may start trials of so many days; 0: none', wholeNumber(0, 366))
    .option('--metadata <name=value>', 'an entry of your own; may be repeated', pairs)

const pathOf = async (backend: Parameters<typeof findPlanId>[0], appId: string, plan: string) => ({
  app_id: appId,
  plan_id: await findPlanId(backend, appId, plan),
})

const entitlementsOf = (values: Readonly<Record<string, string>>) =>
  Object.entries(values).map(([key, value]) => ({ key, value }))
