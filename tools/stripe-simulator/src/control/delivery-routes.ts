import type { FastifyInstance } from 'fastify'
import { ruleActions } from '../delivery/deliveries.ts'
import { signatureKinds, type Attempt } from '../delivery/post.ts'
import { Params } from '../http/params.ts'
import { impossible, noSuch } from '../http/stripe-error.ts'
import { apiVersion } from '../objects/api-version.ts'
import { defaultEnabledEvents, type SimulatedEvent } from '../objects/event.ts'
import { newId } from '../world/ids.ts'
import type { World } from '../world/world.ts'
import type { Control } from './control.ts'

export function deliveryRoutes(scope: FastifyInstance, control: Control): void {
  const { world, deliveries, changed } = control

  scope.get('/events', (request) => {
    const params = new Params(request.query).only('type', 'account')
    const type = params.string('type')
    const account = params.string('account')
    const data = world.events
      .dump()
      .map(({ object }) => ({ event: object, delivery: deliveries.find(object.id) ?? null }))
      .filter(({ event }) => type === undefined || event.type === type)
      .filter(({ event }) => account === undefined || event.account === account)
    return { data }
  })

  scope.delete('/delivery-rules', () => {
    deliveries.rules.clear()
    return { data: [] }
  })
  scope.post('/delivery-rules', (request) => addRule(control, new Params(request.body)))

  scope.post('/release', (request) => {
    const order = new Params(request.body).only('order').oneOf('order', ['emitted', 'reversed'])
    return { released: deliveries.release({ reversed: order === 'reversed' }) }
  })

  scope.post('/deliver', (request) => deliver(control, new Params(request.body)))

  scope.post('/webhook', (request) => {
    setEndpoint(control, new Params(request.body))
    changed()
    return endpointState(control)
  })
}

function addRule({ deliveries }: Control, params: Params): object {
  params.only('action', 'types', 'account', 'next', 'delay_ms', 'times', 'signature')
  const action = params.oneOf('action', ruleActions)
  if (action === undefined) throw params.missing('action')
  return deliveries.rules.add({
    action,
    types: params.strings('types'),
    account: params.string('account'),
    remaining: params.integer('next', 1) ?? null,
    delay_ms: params.integer('delay_ms') ?? 1000,
    times: params.integer('times', 1) ?? 2,
    signature: params.oneOf('signature', signatureKinds) ?? 'wrong_secret',
  })
}

/** Sends an emitted or a made-up event, with any signature and any number of times. Answers when all copies were answered. */
async function deliver({ world, deliveries }: Control, params: Params): Promise<object> {
  params.only('event_id', 'event', 'signature', 'times', 'concurrent')
  if (deliveries.endpoint === null) throw impossible('no webhook endpoint is set')
  const event = readEvent(world, params)
  const signature = params.oneOf('signature', signatureKinds) ?? 'valid'
  const send = async (): Promise<Attempt> => {
    const attempt = await deliveries.send(event, signature)
    deliveries.record(event.id, attempt)
    return attempt
  }
  const times = params.integer('times', 1) ?? 1
  const attempts: Attempt[] = []
  if (params.boolean('concurrent') === true) {
    attempts.push(...(await Promise.all(Array.from({ length: times }, send))))
  } else {
    for (let sent = 0; sent < times; sent += 1) attempts.push(await send())
  }
  return { event_id: event.id, attempts }
}

function readEvent(world: World, params: Params): SimulatedEvent {
  const id = params.string('event_id')
  if (id !== undefined) {
    const stored = world.events.findAnywhere(id)
    if (stored === undefined) throw noSuch('event', id)
    return stored.object
  }
  const made = params.raw('event')
  if (made === undefined) throw params.missing('event_id')
  return {
    id: newId('evt'),
    object: 'event',
    api_version: apiVersion,
    created: world.clock.now(),
    data: { object: {} },
    livemode: false,
    pending_webhooks: 1,
    request: { id: null, idempotency_key: null },
    type: 'simulated.unknown',
    ...made,
  }
}

function endpointState({ deliveries }: Control): object {
  const { url = null, enabledEvents = [] } = deliveries.endpoint ?? {}
  return { url, enabled_events: enabledEvents }
}

function setEndpoint({ deliveries }: Control, params: Params): void {
  params.only('url', 'secret', 'enabled_events')
  const url = params.url('url')
  const before = deliveries.endpoint
  const secret = params.string('secret') ?? before?.secret
  if (url === undefined) {
    deliveries.endpoint = null
    return
  }
  if (secret === undefined) throw params.missing('secret')
  const enabledEvents = params.has('enabled_events')
    ? params.strings('enabled_events')
    : (before?.enabledEvents ?? defaultEnabledEvents)
  deliveries.endpoint = { url, secret, enabledEvents }
}
