import type { CommandUnknownOpts } from '@commander-js/extra-typings'
import type { Schemas } from '@licensing/sdk/backend'
import type { Context } from '../command/context.ts'
import { examples } from '../command/examples.ts'
import { limitOption, listRows, memberOption } from '../command/lists.ts'
import { members, pairs, sinceTime, text, untilTime, webAddress } from '../command/parsers.ts'
import { findPlanId } from '../plans/find-plan.ts'

const ID = 'cs_01k9zj3v8qe5ktw2m4x6r7n8ab'

const statuses = members<Schemas['CheckoutSession']['status']>({
  open: true,
  provisioned: true,
  provision_failed: true,
  expired: true,
  canceled: true,
})

export function checkoutCommands(program: CommandUnknownOpts, { out, service }: Context): void {
  const group = program.command('checkout').description('Open and inspect checkout sessions')

  group
    .command('create')
    .description('Open a checkout session for a plan with a price, and show where the customer pays')
    .requiredOption('--plan <plan>', 'id or code of the plan', text)
    .requiredOption('--external-ref <ref>', 'your reference of the customer', text)
    .requiredOption(
      '--success-url <url>',
      'where to send the customer after the payment',
      webAddress('--success-url'),
    )
    .requiredOption(
      '--cancel-url <url>',
      'where to send a customer who does not pay',
      webAddress('--cancel-url'),
    )
    .option('--metadata <name=value>', 'an entry for the licence; may be repeated', pairs)
    .addHelpText(
      'after',
      examples(
        'checkout create --plan pro --external-ref customer-4711 --success-url https://shop.example.com/thanks --cancel-url https://shop.example.com/cart',
      ),
    )
    .action(async ({ plan, externalRef, successUrl, cancelUrl, metadata }) => {
      const { backend, appId } = await service()
      const app = await appId()
      const body = {
        plan_id: await findPlanId(backend, app, plan),
        external_ref: externalRef,
        success_url: successUrl.href,
        cancel_url: cancelUrl.href,
        ...(metadata !== undefined && { metadata }),
      }
      const path = { app_id: app }
      out.record(await backend.post('/v1/apps/{app_id}/checkout-sessions', { path, body }))
    })

  group
    .command('list')
    .description('List checkout sessions, newest first')
    .addOption(memberOption('--status <status>', 'only with this status', statuses))
    .option('--external-ref <ref>', 'only of this customer', text)
    .option('--since <time>', 'only created at or after this time', sinceTime)
    .option('--until <time>', 'only created before this time', untilTime)
    .addOption(limitOption())
    .addHelpText('after', examples('checkout list --status provision_failed'))
    .action(async ({ limit, externalRef, ...filters }) => {
      const { backend, appId } = await service()
      const path = { app_id: await appId() }
      const query = { ...filters, ...(externalRef !== undefined && { external_ref: externalRef }) }
      await listRows(out, backend.rows('/v1/apps/{app_id}/checkout-sessions', { path, query }), limit, [
        'id',
        'status',
        'external_ref',
        ['amount', ({ amount, currency }) => `${amount} ${currency}`],
        'licence_id',
        'reason',
        'created_at',
      ])
    })

  group
    .command('show')
    .description('Show one checkout session')
    .argument('<id>', 'id of the session', text)
    .addHelpText('after', examples(`checkout show ${ID}`))
    .action(async (id) => {
      const { backend, appId } = await service()
      const path = { app_id: await appId(), session_id: id }
      out.record(await backend.get('/v1/apps/{app_id}/checkout-sessions/{session_id}', { path }))
    })

  group
    .command('replay')
    .description('Provision a paid session again, after the cause of its failure is fixed')
    .argument('<id>', 'id of the session', text)
    .addHelpText('after', examples(`checkout replay ${ID}`))
    .action(async (id) => {
      const { backend, appId } = await service()
      const path = { app_id: await appId(), session_id: id }
      out.record(await backend.post('/v1/apps/{app_id}/checkout-sessions/{session_id}/replay', { path }))
    })
}
