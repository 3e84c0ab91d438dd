import type { Command, CommandUnknownOpts, OptionValues } from '@commander-js/extra-typings'
import { newIdempotencyKey } from '@licensing/sdk/backend'
import type { Schemas } from '@licensing/sdk/backend'
import type { Context } from '../command/context.ts'
import { examples } from '../command/examples.ts'
import { UsageError } from '../command/failures.ts'
import { listRows, memberOption, limitOption } from '../command/lists.ts'
import { members, nulls, pairs, text, texts, endTimeOrNone, wholeNumber } from '../command/parsers.ts'
import { importCommand } from '../import/import.ts'
import { findPlanId } from '../plans/find-plan.ts'
import { valueCommands } from './values.ts'

const ID = 'lic_01k9zj3v8qe5ktw2m4x6r7n8ab'

export function licenceCommands(program: CommandUnknownOpts, context: Context): void {
  const { out, service, confirm } = context
  const group = program.command('licences').description('Issue, find and change licences')

  group
    .command('list')
    .description('List licences, newest first')
    .addOption(memberOption('--status <status>', 'only with this status', statuses))
    .option('--plan <plan>', 'only of this plan: its id or code', text)
    .option('--external-ref <ref>', 'only of this customer', text)
    .option('--domain <host>', 'only with this domain in its restrictions', text)
    .option('--metadata <name=value>', 'only with this entry; may be repeated', pairs)
    .addOption(limitOption())
    .addHelpText(
      'after',
      examples('licences list --status suspended', 'licences list --plan pro --limit 500 --json'),
    )
    .action(async ({ limit, plan, externalRef, ...filters }) => {
      const { backend, appId } = await service()
      const app = await appId()
      const query = {
        ...filters,
        ...(plan !== undefined && { plan: await findPlanId(backend, app, plan) }),
        ...(externalRef !== undefined && { external_ref: externalRef }),
      }
      const rows = backend.rows('/v1/apps/{app_id}/licences', { path: { app_id: app }, query })
      await listRows(out, rows, limit, ['id', 'status', 'external_ref', 'plan_id', 'expires_on'])
    })

  group
    .command('find')
    .description('Find licences by id, key, host, charge, sale or the beginning of a customer reference')
    .argument('<query>', 'what to search for', text)
    .addHelpText('after', examples('licences find customer-4711', 'licences find app.example.com --json'))
    .action(async (query) => {
      const { backend, appId } = await service()
      const { data } = await backend.get('/v1/apps/{app_id}/search', {
        path: { app_id: await appId() },
        query: { q: query },
      })
      if (data.length === 0 && !out.json) return out.message('no licence found')
      out.list(data, [
        ['id', ({ licence }) => licence.id],
        ['status', ({ licence }) => licence.status],
        ['external_ref', ({ licence }) => licence.external_ref],
        ['matched', ({ matched }) => `(by ${matched})`],
      ])
    })

  group
    .command('show')
    .description('Show one licence')
    .argument('<id>', 'id of the licence', text)
    .addHelpText('after', examples(`licences show ${ID}`))
    .action(async (id) => {
      const { backend } = await service()
      out.record(await backend.get('/v1/licences/{licence_id}', { path: { licence_id: id } }))
    })

  group
    .command('history')
    .description('List what happened to a licence, newest first')
    .argument('<id>', 'id of the licence', text)
    .addOption(limitOption())
    .addHelpText('after', examples(`licences history ${ID}`))
    .action(async (id, { limit }) => {
      const { backend } = await service()
      const rows = backend.rows('/v1/licences/{licence_id}/history', { path: { licence_id: id } })
      await listRows(out, rows, limit, ['at', 'type', ['status', ({ to }) => to], 'actor', 'cause'])
    })

  withFields(
    group
      .command('issue')
      .description('Issue a licence; a repetition with the same --idempotency-key returns the same licence')
      .requiredOption('--plan <plan>', 'id or code of the plan', text)
      .requiredOption('--external-ref <ref>', 'your reference of the customer', text),
  )
    .option('--idempotency-key <key>', 'for example the id of the order; default: a new one', text)
    .addHelpText(
      'after',
      examples(
        'licences issue --plan pro --external-ref customer-4711 --idempotency-key order-1001',
        'licences issue --plan pro --external-ref customer-4711 --expires-on 2035-01-31 --max-activations 3',
      ),
    )
    .action(async ({ plan, externalRef, metadata, idempotencyKey, ...options }) => {
      const { backend, appId } = await service()
      const app = await appId()
      const restrictions = restrictionsOf(options)
      const body = {
        ...fieldsOf(options),
        external_ref: externalRef,
        plan_id: await findPlanId(backend, app, plan),
        ...(metadata !== undefined && { metadata }),
        ...(Object.keys(restrictions).length > 0 && { restrictions }),
      }
      out.record(
        await backend.post('/v1/apps/{app_id}/licences', {
          path: { app_id: app },
          body,
          idempotencyKey: idempotencyKey ?? newIdempotencyKey(),
        }),
      )
    })

  importCommand(group, context)

  withFields(
    group
      .command('set')
      .description('Change fields of a licence; other fields stay as they are')
      .argument('<id>', 'id of the licence', text)
      .option('--external-ref <ref>', 'your reference of the customer', text),
  )
    .option('--remove-metadata <name>', 'removes an entry; may be repeated', nulls)
    .option('--no-restrictions', 'removes all restrictions')
    .addHelpText(
      'after',
      examples(
        `licences set ${ID} --expires-on 2035-01-31`,
        `licences set ${ID} --metadata crm_id=A-1045 --max-seats 5`,
      ),
    )
    .action(async (id, { metadata, removeMetadata, restrictions, ...options }) => {
      const changed = restrictionsOf(options)
      const isLimited = Object.keys(changed).length > 0
      if (!restrictions && isLimited)
        throw new UsageError('--no-restrictions excludes the other restrictions')
      const body = {
        ...fieldsOf(options),
        ...((metadata ?? removeMetadata) && { metadata: { ...metadata, ...removeMetadata } }),
        ...(!restrictions && { restrictions: null }),
      }
      if (Object.keys(body).length === 0 && !isLimited) {
        throw new UsageError('nothing to set: name a field, see licensing licences set --help')
      }
      const { backend } = await service()
      const path = { licence_id: id }
      // The service replaces restrictions as a whole.
      const kept = isLimited && (await backend.get('/v1/licences/{licence_id}', { path })).restrictions
      const all = isLimited && { restrictions: { ...kept, ...changed } }
      out.record(await backend.patch('/v1/licences/{licence_id}', { path, body: { ...body, ...all } }))
    })

  valueCommands(group, context)

  group
    .command('rotate-key')
    .description('Give a licence a new key; the old one is unknown within seconds')
    .argument('<id>', 'id of the licence', text)
    .option('--yes', 'do not ask')
    .addHelpText('after', examples(`licences rotate-key ${ID}`))
    .action(async (id, options) => {
      const { backend } = await service()
      await confirm(`Replace the key of ${id}?`, options)
      out.record(await backend.post('/v1/licences/{licence_id}/rotate-key', { path: { licence_id: id } }))
    })

  group
    .command('customer-link')
    .description('Create a link to a page on which the customer sees a licence and removes machines')
    .argument('<id>', 'id of the licence', text)
    .option('--minutes <number>', 'how long it works; default: 60', wholeNumber(5, 1_440))
    .option('--return-url <url>', 'where the link “Back” of the page leads', text)
    .addHelpText(
      'after',
      examples(
        `licences customer-link ${ID}`,
        `licences customer-link ${ID} --minutes 1440 --return-url https://shop.example.com/account`,
      ),
    )
    .action(async (id, { minutes, returnUrl }) => {
      const { backend } = await service()
      const link = await backend.post('/v1/licences/{licence_id}/customer-sessions', {
        path: { licence_id: id },
        body: {
          ...(minutes !== undefined && { minutes }),
          ...(returnUrl !== undefined && { return_url: returnUrl }),
        },
      })
      out.record(link)
      // An earlier try created it and its answer was lost. The service shows a secret only once.
      if (link.url === null)
        out.message('the link was created, but cannot be shown again: create another one')
    })

  for (const verb of Object.keys(verbs) as (keyof typeof verbs)[]) {
    const { description, question } = verbs[verb]
    const command = group.command(verb).description(description).argument('<id>', 'id of the licence', text)
    const asking = question === null ? command : command.option('--yes', 'do not ask')
    asking
      .addHelpText('after', examples(`licences ${verb} ${ID}`))
      .action(async (id, options: { yes?: true }) => {
        const { backend } = await service()
        if (question !== null) await confirm(`${question} ${id} permanently?`, options)
        const licence = await backend.post(`/v1/licences/{licence_id}/${verb}`, { path: { licence_id: id } })
        out.result(licence, [[`${licence.id} `, { text: licence.status, colour: 'green' }]])
      })
  }
}

const verbs = {
  suspend: { description: 'Suspend a licence; it can be reactivated', question: null },
  reactivate: { description: 'Reactivate a suspended licence', question: null },
  revoke: { description: 'Revoke a licence, permanently', question: 'Revoke' },
  retire: { description: 'Retire a licence, permanently', question: 'Retire' },
} as const satisfies Record<Schemas['LicenceDetail']['allowed'][number], object>

const statuses = members<Schemas['Licence']['status']>({
  active: true,
  suspended: true,
  revoked: true,
  expired: true,
  retired: true,
  downgraded: true,
})

/** The fields of a licence that `issue` and `set` have in common. */
const withFields = <Arguments extends unknown[], Options extends OptionValues>(
  command: Command<Arguments, Options>,
) =>
  command
    .option('--expires-on <time>', 'when it expires, or none', endTimeOrNone)
    .option('--updates-until <time>', 'until when updates are included, or none for no limit', endTimeOrNone)
    .option('--metadata <name=value>', 'an entry of your own; may be repeated', pairs)
    .option('--domain <host>', 'a host name on which the product may run; may be repeated', texts)
    .option('--max-activations <number>', 'maximum number of activations', wholeNumber(1))
    .option('--max-seats <number>', 'maximum number of seats', wholeNumber(1))
    .option(
      '--max-concurrent <number>',
      'maximum number of leases: makes the licence floating',
      wholeNumber(1),
    )
    .option('--lease-minutes <number>', 'duration of a lease', wholeNumber(1, 10_080))

type WithFields = typeof withFields<[], { externalRef?: string | undefined }>
type FieldOptions = ReturnType<ReturnType<WithFields>['opts']>

/** The fields with one option each. The service sets the omitted ones, or they have several options. */
type Fields = Omit<
  Schemas['Licence'],
  | 'id'
  | 'key'
  | 'status'
  | 'status_reason'
  | 'plan_id'
  | 'application_id'
  | 'trial'
  | 'created_at'
  | 'updated_at'
  | 'metadata'
  | 'restrictions'
>

const orNull = (value: string | undefined) => (value === 'none' ? null : value)

/** The fields that the options give. */
function fieldsOf({ externalRef, expiresOn, updatesUntil }: FieldOptions) {
  const fields: { [Name in keyof Fields]: Fields[Name] | undefined } = {
    external_ref: externalRef,
    expires_on: orNull(expiresOn),
    updates_until: orNull(updatesUntil),
  }
  return Object.fromEntries(
    Object.entries(fields).filter(([, value]) => value !== undefined),
  ) as Partial<Fields>
}

interface Limits {
  readonly domain?: readonly string[] | undefined
  readonly maxActivations?: number | undefined
  readonly maxSeats?: number | undefined
  readonly maxConcurrent?: number | undefined
  readonly leaseMinutes?: number | undefined
}

function restrictionsOf(limits: Limits): Schemas['Restrictions'] {
  const { domain, maxActivations, maxSeats, maxConcurrent, leaseMinutes } = limits
  return {
    ...(domain !== undefined && { domains: [...domain] }),
    ...(maxActivations !== undefined && { max_activations: maxActivations }),
    ...(maxSeats !== undefined && { max_seats: maxSeats }),
    ...(maxConcurrent !== undefined && { max_concurrent: maxConcurrent }),
    ...(leaseMinutes !== undefined && { lease_minutes: leaseMinutes }),
  }
}
