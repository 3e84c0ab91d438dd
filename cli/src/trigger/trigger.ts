import { setTimeout as pause } from 'node:timers/promises'
import type { Schemas } from '@licensing/sdk/backend'
import type { WebhookEventType } from '@licensing/sdk/webhooks'
import type { Call, Command } from '../command/command.ts'
import { setting, webAddress } from '../command/connection.ts'
import { Refusal, UsageError } from '../command/failures.ts'
import { recipes } from './recipes.ts'
import type { Subject } from './recipes.ts'
import { createWorkbench } from './workbench.ts'

/** Longer than the sweep takes that notices an end. */
const ARRIVAL_MS = 90_000

export const trigger: Command = {
  name: 'trigger',
  argument: 'EVENT',
  summary: 'Trigger an event on a new licence, and print the id of the event',
  options: {},
  examples: ['trigger licence.suspended', 'trigger refund.processed --json'],
  async run(call) {
    const { argument: type, backend, env, out, signal } = call
    if (!isKnown(type))
      throw new UsageError(`unknown event: ${type}; known: ${Object.keys(recipes).join(', ')}`)
    const simulator = setting(undefined, env['LICENSING_SIMULATOR_URL'])
    const simulatorUrl =
      simulator === undefined ? undefined : webAddress(simulator, 'LICENSING_SIMULATOR_URL')
    const appId = await call.appId()
    const { next_after: before } = await backend.get('/v1/events', { query: { after: 'latest' } })
    const subject = await recipes[type](createWorkbench({ backend, appId, simulatorUrl, signal }))
    const { id, sequence } = await findEvent(call, type, subject, before)
    out.message(Object.values(subject).join())
    out.result({ id, type, sequence, ...subject }, [id])
    return 0
  },
}

const isKnown = (type: string): type is WebhookEventType => Object.hasOwn(recipes, type)

async function findEvent(
  { backend, signal }: Pick<Call, 'backend' | 'signal'>,
  type: WebhookEventType,
  subject: Subject,
  before: number,
): Promise<Schemas['Event']> {
  let after = before
  for (const end = Date.now() + ARRIVAL_MS; Date.now() < end;) {
    const page = await backend.get('/v1/events', { query: { after, limit: 200 }, signal })
    const found = page.data.find((event) => event.type === type && isAbout(event, subject))
    if (found) return found
    after = page.next_after
    if (page.data.length === 0) await pause(200, undefined, { signal })
  }
  throw new Refusal('event_missing', `${type} was triggered, but not recorded within ${ARRIVAL_MS / 1000} s`)
}

function isAbout({ id, data }: Schemas['Event'], subject: Subject): boolean {
  if ('event_id' in subject) return id === subject.event_id
  return Object.entries(subject).every(([name, value]) => data.object[name] === value)
}
