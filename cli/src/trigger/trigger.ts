import { setTimeout as pause } from 'node:timers/promises'
import { Argument } from '@commander-js/extra-typings'
import type { CommandUnknownOpts } from '@commander-js/extra-typings'
import type { LicensingBackend, Schemas } from '@licensing/sdk/backend'
import type { WebhookEventType } from '@licensing/sdk/webhooks'
import type { Context } from '../command/context.ts'
import { examples } from '../command/examples.ts'
import { Refusal } from '../command/failures.ts'
import { oneOf, webAddress } from '../command/parsers.ts'
import { value } from '../command/settings.ts'
import { createTriggerActions } from './trigger-actions.ts'
import type { TriggerActions } from './trigger-actions.ts'

/** Longer than the interval of the sweep that expires licences. */
const ARRIVAL_MS = 90_000
const DAY_MS = 86_400_000

export function triggerCommand(program: CommandUnknownOpts, { env, out, service }: Context): void {
  const types = Object.keys(recipes) as WebhookEventType[]
  const event = new Argument('<event>', 'type of the event, see below').argParser(oneOf(types, 'event'))
  event.argChoices = types
  program
    .command('trigger')
    .description('Trigger an event on a new licence, and print the id of the event')
    .addArgument(event)
    .addHelpText(
      'after',
      [
        '',
        'Events:',
        ...types.map((type) => `  ${type}`),
        examples('trigger licence.suspended', 'trigger refund.processed --json'),
      ].join('\n'),
    )
    .action(async (type) => {
      const simulator = value(env['LICENSING_SIMULATOR_URL'])
      const simulatorUrl = simulator && webAddress('LICENSING_SIMULATOR_URL')(simulator)
      const { backend, connection, appId } = await service()
      const app = await appId()
      const { next_after: before } = await backend.get('/v1/events', { query: { after: 'latest' } })
      out.progress(`triggering ${type}`)
      const subject = await recipes[type](
        createTriggerActions({
          backend,
          baseUrl: connection.baseUrl,
          appId: app,
          simulatorUrl: simulatorUrl || undefined,
        }),
      )
      out.progress(`waiting for ${type}`)
      const { id, sequence } = await findEvent(backend, type, subject, before)
      out.message(Object.values(subject).join())
      out.result({ id, type, sequence, ...subject }, [id])
    })
}

async function findEvent(
  backend: LicensingBackend,
  type: WebhookEventType,
  subject: Subject,
  before: number,
): Promise<Schemas['Event']> {
  let after = before
  for (const end = Date.now() + ARRIVAL_MS; Date.now() < end;) {
    const page = await backend.get('/v1/events', { query: { after, limit: 200 } })
    const found = page.data.find((event) => event.type === type && isAbout(event, subject))
    if (found) return found
    after = page.next_after
    if (page.data.length === 0) await pause(200)
  }
  throw new Refusal('event_missing', `${type} was triggered, but not recorded within ${ARRIVAL_MS / 1000} s`)
}

function isAbout({ id, data }: Schemas['Event'], subject: Subject): boolean {
  if ('event_id' in subject) return id === subject.event_id
  return Object.entries(subject).every(([name, value]) => data.object[name] === value)
}

/** The field that identifies the event in the account's feed. */
type Subject =
  { readonly licence_id: string } | { readonly session_id: string } | { readonly event_id: string }

type Recipe = (bench: TriggerActions) => Promise<Subject>

const moved =
  (...verbs: Parameters<TriggerActions['move']>[0][]): Recipe =>
  async ({ issue, move }) => {
    const id = await issue()
    for (const verb of verbs) await move(verb, id)
    return { licence_id: id }
  }

const bought =
  (refunded?: 'fully' | 'in part'): Recipe =>
  async ({ buy }) => {
    const { licenceId, refund } = await buy()
    if (refunded !== undefined) await refund(refunded === 'fully' ? undefined : 100)
    return { licence_id: licenceId }
  }

/** The actions that cause each type of event. */
const recipes: Readonly<Record<WebhookEventType, Recipe>> = {
  'licence.created': async ({ sell }) => ({ licence_id: (await sell('licensing-trigger')).licenceId }),
  'licence.plan_changed': async ({ sell }) => {
    const { customer, licenceId } = await sell('licensing-trigger')
    await sell('licensing-trigger-other', customer)
    return { licence_id: licenceId }
  },
  'licence.suspended': moved('suspend'),
  'licence.reactivated': moved('suspend', 'reactivate'),
  'licence.revoked': moved('revoke'),
  'licence.retired': moved('retire'),
  'licence.expired': async ({ issue }) => ({ licence_id: await issue(new Date(Date.now() + 3_000)) }),
  'licence.downgraded': bought('in part'),
  'licence.expiring': async ({ issue, noticeDays }) => {
    const days = await noticeDays()
    if (days > 0) return { licence_id: await issue(new Date(Date.now() + days * DAY_MS + 3_000)) }
    throw new Refusal('cannot_trigger', 'the application sends no notice: expiring_notice_days is 0')
  },
  'licence.entitlements_changed': async ({ issue, override }) => {
    const id = await issue()
    await override(id)
    return { licence_id: id }
  },
  'licence.trial_started': async ({ startTrial }) => ({ licence_id: await startTrial() }),
  'payment.succeeded': bought(),
  'payment.provision_failed': async ({ openCheckout, archive }) => {
    const { id, planId, pay } = await openCheckout('licensing-trigger-retired')
    await archive(planId)
    await pay()
    return { session_id: id }
  },
  'refund.processed': bought('fully'),
  'spend_cap.reached': () => {
    throw new Refusal(
      'cannot_trigger',
      'spend_cap.reached cannot be triggered: it would pause the checkouts of the whole account',
    )
  },
  'webhook.test': async ({ testEndpoint }) => ({ event_id: await testEndpoint() }),
}
