import type { CommandUnknownOpts } from '@commander-js/extra-typings'
import type { Schemas } from '@licensing/sdk/backend'
import type { Context } from '../command/context.ts'
import { examples } from '../command/examples.ts'
import { UsageError } from '../command/failures.ts'
import { eventsOption, limitOption, listRows, memberOption } from '../command/lists.ts'
import { members, pairs, sinceTime, text, untilTime, webAddress, wholeNumber } from '../command/parsers.ts'
import { findPlanId } from '../plans/find-plan.ts'

const ID = 'whe_01k9zj3v8qe5ktw2m4x6r7n8ab'

const signatures = members<Schemas['WebhookEndpoint']['signature']>({ default: true, standard: true })

const header = (value: string, previous?: Readonly<Record<string, string>> | 'none') =>
  value === 'none' ? value : pairs(value, previous === 'none' ? {} : previous)

const orNull = <Value>(value: Value) => (value === 'none' ? null : (value as Exclude<Value, 'none'>))

export function endpointCommands(program: CommandUnknownOpts, { out, service, confirm }: Context): void {
  // The secret is null if an earlier try succeeded and its answer was lost. The service shows a secret only once.
  const warnIfLost = ({ secret }: { readonly secret: string | null }) => {
    if (secret === null) out.message('the secret cannot be shown again: run endpoints rotate-secret')
  }
  const group = program.command('endpoints').description('Register and inspect webhook endpoints')

  group
    .command('list')
    .description('List webhook endpoints')
    .addOption(limitOption())
    .addHelpText('after', examples('endpoints list'))
    .action(async ({ limit }) => {
      const { backend, appId } = await service()
      const path = { app_id: await appId() }
      await listRows(out, backend.rows('/v1/apps/{app_id}/webhook-endpoints', { path }), limit, [
        'id',
        'status',
        'paused',
        ['pending', ({ health }) => health.pending],
        'url',
        'subscribed_events',
      ])
    })

  group
    .command('show')
    .description('Show one webhook endpoint and its health')
    .argument('<id>', 'id of the endpoint', text)
    .addHelpText('after', examples(`endpoints show ${ID}`))
    .action(async (id) => {
      const { backend, appId } = await service()
      const path = { app_id: await appId(), endpoint_id: id }
      out.record(await backend.get('/v1/apps/{app_id}/webhook-endpoints/{endpoint_id}', { path }))
    })

  group
    .command('create')
    .description('Register a webhook endpoint, and show its signing secret once')
    .argument('<url>', 'https URL that receives the events', webAddress('the URL of the endpoint'))
    .addOption(eventsOption().default('*' as const))
    .addHelpText(
      'after',
      examples(
        'endpoints create https://shop.example.com/webhooks',
        'endpoints create https://shop.example.com/webhooks --events licence.suspended,licence.revoked',
      ),
    )
    .action(async (url, { events }) => {
      const { backend, appId } = await service()
      const body = { url: url.href, subscribed_events: events === '*' ? events : events.join(',') }
      const path = { app_id: await appId() }
      const made = await backend.post('/v1/apps/{app_id}/webhook-endpoints', { path, body })
      out.record(made)
      warnIfLost(made)
    })

  group
    .command('edit')
    .description('Change a webhook endpoint; what waits is sent as it is from then on')
    .argument('<id>', 'id of the endpoint', text)
    .option('--url <url>', 'https URL that receives the events', webAddress('the URL of the endpoint'))
    .addOption(eventsOption())
    .option('--description <text>', 'your own note, or none', text)
    .option(
      '--header <name=value>',
      'a header of each attempt, or none; may be repeated; replaces all headers',
      header,
    )
    .option('--plans <plans>', 'ids or codes of plans, separated by commas, or none for all plans', text)
    .addOption(
      memberOption('--signature <signature>', 'how attempts are signed; makes a new secret', signatures),
    )
    .addHelpText(
      'after',
      examples(
        `endpoints edit ${ID} --url https://shop.example.com/licensing`,
        `endpoints edit ${ID} --header X-Api-Key=4f9c2e --plans pro,team --signature standard`,
      ),
    )
    .action(async (id, { url, events, description, header: headers, plans, signature }) => {
      const { backend, appId } = await service()
      const app = await appId()
      const planIds = async (list: string) =>
        list === 'none'
          ? null
          : Promise.all(list.split(',').map((plan) => findPlanId(backend, app, plan.trim())))
      const body = {
        ...(url && { url: url.href }),
        ...(events && { subscribed_events: events === '*' ? events : events.join(',') }),
        ...(description !== undefined && { description: orNull(description) }),
        ...(headers && { headers: orNull(headers) }),
        ...(plans && { plans: await planIds(plans) }),
        ...(signature && { signature }),
      }
      if (Object.keys(body).length === 0) throw new UsageError('nothing to change: give at least one option')
      const path = { app_id: app, endpoint_id: id }
      out.record(await backend.patch('/v1/apps/{app_id}/webhook-endpoints/{endpoint_id}', { path, body }))
    })

  for (const [name, paused, description] of [
    ['pause', true, 'Let the deliveries of a webhook endpoint wait'],
    ['resume', false, 'Send what waited, and go on'],
  ] as const) {
    group
      .command(name)
      .description(description)
      .argument('<id>', 'id of the endpoint', text)
      .addHelpText('after', examples(`endpoints ${name} ${ID}`))
      .action(async (id) => {
        const { backend, appId } = await service()
        const path = { app_id: await appId(), endpoint_id: id }
        const one = '/v1/apps/{app_id}/webhook-endpoints/{endpoint_id}'
        out.record(await backend.patch(one, { path, body: { paused } }))
      })
  }

  group
    .command('delete')
    .description('Disable a webhook endpoint, permanently')
    .argument('<id>', 'id of the endpoint', text)
    .option('--yes', 'do not ask')
    .addHelpText('after', examples(`endpoints delete ${ID}`))
    .action(async (id, options) => {
      const { backend, appId } = await service()
      await confirm(`Disable endpoint ${id} permanently?`, options)
      const path = { app_id: await appId(), endpoint_id: id }
      await backend.delete('/v1/apps/{app_id}/webhook-endpoints/{endpoint_id}', { path })
      out.result({ id, status: 'disabled' }, [`${id} disabled`])
    })

  group
    .command('rotate-secret')
    .description('Replace the signing secret immediately, and show the new one once')
    .argument('<id>', 'id of the endpoint', text)
    .option('--overlap-hours <hours>', 'sign with the former secret too for this long', wholeNumber(0, 168))
    .option('--yes', 'do not ask')
    .addHelpText(
      'after',
      examples(`endpoints rotate-secret ${ID}`, `endpoints rotate-secret ${ID} --overlap-hours 24`),
    )
    .action(async (id, { overlapHours, ...options }) => {
      const { backend, appId } = await service()
      await confirm(`Replace the signing secret of ${id}?`, options)
      const path = { app_id: await appId(), endpoint_id: id }
      const rotated = await backend.post('/v1/apps/{app_id}/webhook-endpoints/{endpoint_id}/rotate-secret', {
        path,
        ...(overlapHours !== undefined && { body: { overlap_hours: overlapHours } }),
      })
      out.record(rotated)
      warnIfLost(rotated)
    })

  group
    .command('test')
    .description('Send a webhook.test event to an endpoint')
    .argument('<id>', 'id of the endpoint', text)
    .addHelpText('after', examples(`endpoints test ${ID}`))
    .action(async (id) => {
      const { backend, appId } = await service()
      const path = { app_id: await appId(), endpoint_id: id }
      out.record(await backend.post('/v1/apps/{app_id}/webhook-endpoints/{endpoint_id}/test', { path }))
    })

  group
    .command('recover')
    .description('Send an endpoint the events that it missed')
    .argument('<id>', 'id of the endpoint', text)
    .requiredOption('--since <time>', 'events at or after this time', sinceTime)
    .option('--until <time>', 'events before this time; default: now', untilTime)
    .addOption(eventsOption().default('*' as const))
    .addHelpText('after', examples(`endpoints recover ${ID} --since 2026-01-31T08:00:00Z`))
    .action(async (id, { since, until, events }) => {
      const { backend, appId } = await service()
      const body = {
        since,
        ...(until !== undefined && { until }),
        ...(events !== '*' && { types: [...events] }),
      }
      const path = { app_id: await appId(), endpoint_id: id }
      out.record(
        await backend.post('/v1/apps/{app_id}/webhook-endpoints/{endpoint_id}/recover', { path, body }),
      )
    })
}
