import type { CommandUnknownOpts } from '@commander-js/extra-typings'
import type { Schemas } from '@licensing/sdk/backend'
import { webhookEventTypes } from '@licensing/sdk/webhooks'
import type { Context } from '../command/context.ts'
import { examples } from '../command/examples.ts'
import { limitOption, listRows, memberOption } from '../command/lists.ts'
import { members, sinceTime, text, untilTime } from '../command/parsers.ts'

const ID = 'dlv_01k9zj3v8qe5ktw2m4x6r7n8ab'

const statuses = members<Schemas['WebhookDelivery']['status']>({
  pending: true,
  delivered: true,
  failed: true,
})

export function deliveryCommands(program: CommandUnknownOpts, { out, service }: Context): void {
  const group = program.command('deliveries').description('Inspect and replay webhook deliveries')

  group
    .command('list')
    .description('List webhook deliveries, newest first')
    .addOption(memberOption('--status <status>', 'only with this status', statuses))
    .addOption(memberOption('--type <event>', 'only of this event type', webhookEventTypes))
    .option('--endpoint <id>', 'only to this endpoint', text)
    .option('--event <id>', 'only of this event', text)
    .option('--licence <id>', 'only about this licence', text)
    .option('--since <time>', 'only created at or after this time', sinceTime)
    .option('--until <time>', 'only created before this time', untilTime)
    .addOption(limitOption())
    .addHelpText(
      'after',
      examples('deliveries list --status failed', 'deliveries list --type licence.revoked --json'),
    )
    .action(async ({ limit, ...filters }) => {
      const { backend, appId } = await service()
      const path = { app_id: await appId() }
      const query = { ...filters }
      await listRows(out, backend.rows('/v1/apps/{app_id}/webhook-deliveries', { path, query }), limit, [
        'id',
        'status',
        ['event', ({ event_type: type }) => type],
        ['attempts', ({ attempt_count: count }) => count],
        ['response', ({ last_response_code: code }) => code],
        'endpoint_id',
        'created_at',
      ])
    })

  group
    .command('show')
    .description('Show one delivery with its payload and attempts')
    .argument('<id>', 'id of the delivery', text)
    .addHelpText('after', examples(`deliveries show ${ID}`))
    .action(async (id) => {
      const { backend, appId } = await service()
      const path = { app_id: await appId(), delivery_id: id }
      out.record(await backend.get('/v1/apps/{app_id}/webhook-deliveries/{delivery_id}', { path }))
    })

  group
    .command('replay')
    .description('Send the event of a delivery again')
    .argument('<id>', 'id of the delivery', text)
    .option('--endpoint <id>', 'to this endpoint; default: the same', text)
    .addHelpText('after', examples(`deliveries replay ${ID}`))
    .action(async (id, { endpoint }) => {
      const { backend, appId } = await service()
      const path = { app_id: await appId(), delivery_id: id }
      const body = endpoint === undefined ? {} : { endpoint_id: endpoint }
      out.record(
        await backend.post('/v1/apps/{app_id}/webhook-deliveries/{delivery_id}/replay', { path, body }),
      )
    })
}
