import { setTimeout as sleep } from 'node:timers/promises'
import type { SimulatedEvent } from '../objects/event.ts'
import { isAccepted, postEvent, type Attempt, type Endpoint, type SignatureKind } from './post.ts'

type DeliveryState =
  | 'pending'
  | 'held'
  | 'delivered'
  /** No attempt is left, or a forge rule replaced the event. */
  | 'failed'
  | 'dropped'
  /** No endpoint is subscribed to the type. */
  | 'skipped'

export type Delivery = { event_id: string; state: DeliveryState; attempts: Attempt[] }

type Options = {
  endpoint: Endpoint | null
  retryDelaysMs: number[]
  findEvent: (id: string) => SimulatedEvent | undefined
  log: (event: SimulatedEvent, attempt: Attempt) => void
  changed: () => void
}

const maxAtOnce = 16
const maxKept = 10_000

/** Sends events to the platform's endpoint until it accepts them, unless a delivery rule changes that. */
export class Deliveries {
  readonly rules = new DeliveryRules()
  endpoint: Endpoint | null
  readonly #options: Options
  readonly #deliveries = new Map<string, Delivery>()
  readonly #running = new Set<Promise<void>>()
  readonly #stop = new AbortController()
  readonly #waiting: (() => void)[] = []
  #sending = 0

  constructor(options: Options) {
    this.#options = options
    this.endpoint = options.endpoint
  }

  accept(event: SimulatedEvent): void {
    const delivery: Delivery = { event_id: event.id, state: 'pending', attempts: [] }
    this.#deliveries.set(event.id, delivery)
    this.#forgetOldest()
    if (!this.#isSubscribed(event.type)) delivery.state = 'skipped'
    else this.#follow(this.rules.take(event), event, delivery)
    this.#options.changed()
  }

  find(eventId: string): Delivery | undefined {
    return this.#deliveries.get(eventId)
  }

  held(): Delivery[] {
    return [...this.#deliveries.values()].filter(({ state }) => state === 'held')
  }

  /**
   * Ends the rules that hold, and sends held events one after the other, each after the answer to the previous one.
   *
   * @returns their ids in this order
   */
  release({ reversed }: { reversed: boolean }): string[] {
    this.rules.stopHolding()
    const held = this.held()
    const released = reversed ? held.toReversed() : held
    for (const delivery of released) delivery.state = 'pending'
    this.#run(async () => {
      for (const delivery of released) {
        const event = this.#options.findEvent(delivery.event_id)
        if (!event) continue
        if (!(await this.#try(event, delivery, 'valid'))) this.#run(() => this.#retry(event, delivery))
      }
    })
    return released.map(({ event_id: id }) => id)
  }

  /** Sends one event now, whatever its state, and returns the result. */
  async send(event: SimulatedEvent, signature: SignatureKind): Promise<Attempt> {
    const to = this.endpoint
    if (to === null) throw new Error('no webhook endpoint is set')
    return this.#slot(() => postEvent(to, event, signature, this.#stop.signal))
  }

  record(eventId: string, attempt: Attempt): void {
    const delivery = this.#deliveries.get(eventId)
    if (delivery === undefined) return
    delivery.attempts.push(attempt)
    if (isAccepted(attempt)) delivery.state = 'delivered'
    this.#options.changed()
  }

  /** Resolves when no delivery is pending. Held deliveries stay held. */
  async settled(): Promise<void> {
    while (this.#running.size > 0) await Promise.all(this.#running)
  }

  async stop(): Promise<void> {
    this.#stop.abort()
    await this.settled()
  }

  dump(): Delivery[] {
    return [...this.#deliveries.values()]
  }

  /** Loads the deliveries of an earlier process, and continues the pending ones. */
  restore(deliveries: Delivery[]): void {
    this.#deliveries.clear()
    for (const delivery of deliveries) {
      this.#deliveries.set(delivery.event_id, delivery)
      const event = this.#options.findEvent(delivery.event_id)
      if (delivery.state === 'pending' && event) this.#run(() => this.#deliver(event, delivery))
    }
  }

  #follow(rule: DeliveryRule | undefined, event: SimulatedEvent, delivery: Delivery): void {
    switch (rule?.action) {
      case undefined:
        this.#run(() => this.#deliver(event, delivery))
        return
      case 'hold':
        delivery.state = 'held'
        return
      case 'delay':
        this.#run(async () => {
          if (await this.#pause(rule.delay_ms)) await this.#deliver(event, delivery)
        })
        return
      case 'duplicate':
        for (let copy = 1; copy < rule.times; copy += 1) {
          this.#run(async () => void (await this.#try(event, delivery, 'valid')))
        }
        this.#run(() => this.#deliver(event, delivery))
        return
      case 'drop':
        delivery.state = 'dropped'
        return
      case 'forge':
        delivery.state = 'failed'
        this.#run(async () => void (await this.#try(event, delivery, rule.signature)))
    }
  }

  #forgetOldest(): void {
    const [oldest] = this.#deliveries.keys()
    if (this.#deliveries.size > maxKept && oldest !== undefined) this.#deliveries.delete(oldest)
  }

  async #deliver(event: SimulatedEvent, delivery: Delivery): Promise<void> {
    if (!(await this.#try(event, delivery, 'valid'))) await this.#retry(event, delivery)
  }

  async #retry(event: SimulatedEvent, delivery: Delivery): Promise<void> {
    const { retryDelaysMs, changed } = this.#options
    for (;;) {
      // A delivery that was interrupted by the stop stays pending, and the next start sends it.
      if (this.#stop.signal.aborted) return
      const delayMs = retryDelaysMs[delivery.attempts.length - 1]
      if (delayMs === undefined) break
      if (!(await this.#pause(delayMs))) return
      if (await this.#try(event, delivery, 'valid')) return
    }
    if (delivery.state === 'pending') delivery.state = 'failed'
    changed()
  }

  async #try(event: SimulatedEvent, delivery: Delivery, signature: SignatureKind): Promise<boolean> {
    const attempt = await this.send(event, signature)
    if (this.#stop.signal.aborted && !isAccepted(attempt)) return false
    this.record(delivery.event_id, attempt)
    this.#options.log(event, attempt)
    return isAccepted(attempt)
  }

  #isSubscribed(type: string): boolean {
    const types = this.endpoint?.enabledEvents ?? []
    return types.includes('*') || types.includes(type)
  }

  /** Resolves to false if the simulator stops during the pause. */
  async #pause(delayMs: number): Promise<boolean> {
    return sleep(delayMs, true, { signal: this.#stop.signal }).catch(() => false)
  }

  async #slot<Result>(action: () => Promise<Result>): Promise<Result> {
    if (this.#sending >= maxAtOnce) await new Promise<void>((go) => this.#waiting.push(go))
    this.#sending += 1
    try {
      return await action()
    } finally {
      this.#sending -= 1
      this.#waiting.shift()?.()
    }
  }

  #run(action: () => Promise<void>): void {
    const running = action().finally(() => this.#running.delete(running))
    this.#running.add(running)
  }
}

/**
 * The effect of a rule on matching events:
 * hold     kept until released
 * delay    sent after `delay_ms`
 * duplicate sent `times` times at once
 * drop     never sent; only `GET /v1/events` has it
 * forge    sent once with a bad signature and not again
 */
export const ruleActions = ['hold', 'delay', 'duplicate', 'drop', 'forge'] as const

type DeliveryRule = {
  action: (typeof ruleActions)[number]
  /** Event types; an empty list means every type. */
  types: string[]
  account: string | undefined
  /** How many more events it applies to; null for all until it is removed. */
  remaining: number | null
  delay_ms: number
  times: number
  signature: SignatureKind
}

/** The delivery rules. The first rule that matches applies to an event. */
class DeliveryRules {
  #rules: DeliveryRule[] = []

  add(rule: DeliveryRule): DeliveryRule {
    this.#rules.push(rule)
    return rule
  }

  take(event: SimulatedEvent): DeliveryRule | undefined {
    const rule = this.#rules.find(
      ({ types, account }) =>
        (types.length === 0 || types.includes(event.type)) &&
        (account === undefined || account === event.account),
    )
    if (rule === undefined || rule.remaining === null) return rule
    rule.remaining -= 1
    this.#rules = this.#rules.filter((each) => each.remaining !== 0)
    return rule
  }

  isHolding(): boolean {
    return this.#rules.some(({ action }) => action === 'hold')
  }

  clear(): void {
    this.#rules = []
  }

  stopHolding(): void {
    this.#rules = this.#rules.filter(({ action }) => action !== 'hold')
  }
}
