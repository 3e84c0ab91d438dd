import { createHmac } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { newId } from './ids.ts'
import { apiVersion } from './objects/api-version.ts'
import type { EventObjects, EventType, SimulatedEvent } from './objects/event.ts'
import { ownerOf, type Owner, type World } from './world.ts'

const eventsKept = 10_000

/** Emits an event with a copy of the object, so that later changes of the object do not change the event. */
export function emit<Type extends EventType>(
  world: World,
  type: Type,
  object: EventObjects[Type],
  previousAttributes?: Partial<EventObjects[Type]>,
  account: Owner = ownerOf(world, object),
): void {
  const event = newEvent(world, {
    ...(account !== null && { account }),
    data: {
      object: JSON.parse(asJson(object)) as object,
      ...(previousAttributes !== undefined && {
        previous_attributes: JSON.parse(asJson(previousAttributes)) as object,
      }),
    },
    request: world.cause,
    type,
  })
  world.events.set(event.id, event)
  world.owners.set(event.id, account)
  const [oldest] = world.events.keys()
  if (world.events.size > eventsKept && oldest !== undefined) {
    world.events.delete(oldest)
    world.owners.delete(oldest)
  }
  world.deliver(event)
}

export function newEvent(world: World, of: Partial<SimulatedEvent>): SimulatedEvent {
  return {
    id: newId('evt'),
    object: 'event',
    api_version: apiVersion,
    created: world.now,
    data: { object: {} },
    livemode: false,
    pending_webhooks: 1,
    request: { id: null, idempotency_key: null },
    type: 'simulated.unknown',
    ...of,
  }
}

const embeddedLists = ['items', 'lines', 'refunds']
const maxEmbedded = 10

/** An object as JSON. As with Stripe, a list in an object has only its first ten members; its URL has the others. */
export function asJson(value: object): string {
  return JSON.stringify(
    value,
    (name, member: unknown) => {
      const list = Object(member) as { data?: unknown[] }
      if (!embeddedLists.includes(name) || !list.data || list.data.length <= maxEmbedded) return member
      return { ...list, data: list.data.slice(0, maxEmbedded), has_more: true }
    },
    2,
  )
}

/** The platform's webhook endpoint. */
type Endpoint = { url: string; secret: string }

type Attempt = {
  /** The status of the answer; null if there was none. */
  status: number | null
  error: string | null
}

/** `failed`: no attempt is left. `skipped`: there is no endpoint. */
type Delivery = {
  state: 'pending' | 'held' | 'delivered' | 'failed' | 'dropped' | 'skipped'
  attempts: Attempt[]
}

/**
 * The effect of a rule on matching events:
 * hold      kept until released
 * delay     sent after `delay_ms`
 * duplicate sent `times` times at once
 * drop      never sent; only `GET /v1/events` has it
 */
export const ruleActions = ['hold', 'delay', 'duplicate', 'drop'] as const

export type DeliveryRule = {
  action: (typeof ruleActions)[number]
  /** Event types; an empty list means every type. */
  types: string[]
  account?: string | undefined
  remaining: number | null
  delay_ms: number
  times: number
}

/** The first rule that matches. A rule with `remaining` ends after as many uses; null is no end. */
export function takeFirst<Rule extends { remaining: number | null }>(
  rules: Rule[],
  matches: (rule: Rule) => boolean,
): Rule | undefined {
  const rule = rules.find(matches)
  if (rule === undefined || rule.remaining === null) return rule
  rule.remaining -= 1
  if (rule.remaining === 0) rules.splice(rules.indexOf(rule), 1)
  return rule
}

const maxAtOnce = 16

/** Sends events to the platform's endpoint until it accepts them, unless a rule changes that. */
export class Deliveries {
  endpoint: Endpoint | null
  rules: DeliveryRule[] = []
  readonly of = new Map<string, Delivery>()
  #held: SimulatedEvent[] = []
  readonly #retryDelaysMs: number[]
  readonly #log: (event: SimulatedEvent, attempt: Attempt) => void
  readonly #running = new Set<Promise<void>>()
  readonly #stop = new AbortController()
  readonly #waiting: (() => void)[] = []
  #sending = 0

  constructor(
    endpoint: Endpoint | null,
    retryDelaysMs: number[],
    log: (event: SimulatedEvent, attempt: Attempt) => void,
  ) {
    this.endpoint = endpoint
    this.#retryDelaysMs = retryDelaysMs
    this.#log = log
  }

  accept(event: SimulatedEvent): void {
    const delivery: Delivery = { state: 'pending', attempts: [] }
    this.of.set(event.id, delivery)
    const [oldest] = this.of.keys()
    if (this.of.size > eventsKept && oldest !== undefined) this.of.delete(oldest)
    if (this.endpoint === null) {
      delivery.state = 'skipped'
      return
    }
    const rule = takeFirst(
      this.rules,
      (each) =>
        (each.types.length === 0 || each.types.includes(event.type)) &&
        (each.account === undefined || each.account === event.account),
    )
    if (rule?.action === 'drop') delivery.state = 'dropped'
    else if (rule?.action === 'hold') {
      delivery.state = 'held'
      this.#held.push(event)
    } else {
      const copies = rule?.action === 'duplicate' ? rule.times - 1 : 0
      for (let copy = 0; copy < copies; copy += 1) this.#run(async () => void (await this.#try(event)))
      this.#run(() => this.#deliver(event, rule?.action === 'delay' ? rule.delay_ms : 0))
    }
  }

  /** Ends the rules that hold, and sends held events one after the other, each after the answer to the previous one. */
  release({ reversed }: { reversed: boolean }): void {
    this.rules = this.rules.filter(({ action }) => action !== 'hold')
    const released = reversed ? this.#held.toReversed() : this.#held
    this.#held = []
    for (const { id } of released) this.of.get(id)!.state = 'pending'
    this.#run(async () => {
      for (const event of released) {
        if (!(await this.#try(event))) this.#run(() => this.#retry(event))
      }
    })
  }

  /** Sends an event that is not delivered otherwise, once. */
  async send(event: SimulatedEvent): Promise<Attempt> {
    const { endpoint } = this
    if (endpoint === null) throw new Error('no webhook endpoint is set')
    if (this.#sending >= maxAtOnce) await new Promise<void>((go) => this.#waiting.push(go))
    this.#sending += 1
    try {
      return await post(endpoint, event, this.#stop.signal)
    } finally {
      this.#sending -= 1
      this.#waiting.shift()?.()
    }
  }

  /** Resolves when no delivery is pending. Held deliveries stay held. */
  async settled(): Promise<void> {
    while (this.#running.size > 0) await Promise.all(this.#running)
  }

  async stop(): Promise<void> {
    this.#stop.abort()
    await this.settled()
  }

  async #deliver(event: SimulatedEvent, delayMs: number): Promise<void> {
    if (await this.#pause(delayMs)) if (!(await this.#try(event))) await this.#retry(event)
  }

  async #retry(event: SimulatedEvent): Promise<void> {
    for (const delayMs of this.#retryDelaysMs) {
      if (!(await this.#pause(delayMs))) return
      if (await this.#try(event)) return
    }
    const delivery = this.of.get(event.id)
    if (delivery?.state === 'pending') delivery.state = 'failed'
  }

  async #try(event: SimulatedEvent): Promise<boolean> {
    const attempt = await this.send(event)
    const isAccepted = attempt.status !== null && attempt.status >= 200 && attempt.status < 300
    this.#log(event, attempt)
    const delivery = this.of.get(event.id)
    delivery?.attempts.push(attempt)
    if (delivery && isAccepted) delivery.state = 'delivered'
    return isAccepted
  }

  /** Resolves to false if the simulator stops during the pause. */
  async #pause(delayMs: number): Promise<boolean> {
    if (delayMs === 0) return true
    return sleep(delayMs, true, { signal: this.#stop.signal }).catch(() => false)
  }

  #run(action: () => Promise<void>): void {
    const running = action().finally(() => this.#running.delete(running))
    this.#running.add(running)
  }
}

const timeoutMs = 10_000

/** Sends one signed POST of an event. A failure is part of the returned attempt, never an exception. */
async function post(endpoint: Endpoint, event: SimulatedEvent, stop: AbortSignal): Promise<Attempt> {
  // Stripe sends its events indented, so that a receiver which parses before it verifies fails.
  const body = JSON.stringify(event, null, 2)
  const timestamp = Math.floor(Date.now() / 1000)
  const signature = createHmac('sha256', endpoint.secret).update(`${timestamp}.${body}`).digest('hex')
  try {
    const response = await fetch(endpoint.url, {
      method: 'POST',
      headers: {
        'content-type': 'application/json; charset=utf-8',
        'user-agent': 'Stripe/1.0 (simulated)',
        'x-simulated': 'stripe-simulator',
        'stripe-signature': `t=${timestamp},v1=${signature}`,
      },
      body,
      // A redirect is a failure, as with Stripe.
      redirect: 'manual',
      signal: AbortSignal.any([stop, AbortSignal.timeout(timeoutMs)]),
    })
    await response.arrayBuffer()
    return { status: response.status, error: null }
  } catch (error) {
    const cause = error instanceof Error && error.cause instanceof Error ? `: ${error.cause.message}` : ''
    return { status: null, error: `${String(error)}${cause}` }
  }
}
