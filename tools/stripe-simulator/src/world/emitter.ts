import { asOfVersion } from '../objects/api-version.ts'
import type { Cause, EventObjects, EventType, SimulatedEvent } from '../objects/event.ts'
import type { Clock } from './clock.ts'
import type { Collection, Owner } from './collection.ts'
import { newId } from './ids.ts'
import type { Settings } from './settings.ts'

const nobody: Cause = { id: null, idempotency_key: null }
const eventsKept = 10_000

/** Makes events, keeps them for `GET /v1/events`, and hands each to the component that delivers. */
export class Emitter {
  readonly #clock: Clock
  readonly #events: Collection<SimulatedEvent>
  readonly #settings: Settings
  #cause = nobody
  #deliver: (event: SimulatedEvent) => void = () => undefined

  constructor(clock: Clock, events: Collection<SimulatedEvent>, settings: Settings) {
    this.#clock = clock
    this.#events = events
    this.#settings = settings
  }

  deliverWith(deliver: (event: SimulatedEvent) => void): void {
    this.#deliver = deliver
  }

  /** Events that the action emits name this cause in `request`. */
  causedBy<Result>(cause: Cause, action: () => Result): Result {
    const before = this.#cause
    this.#cause = cause
    try {
      return action()
    } finally {
      this.#cause = before
    }
  }

  /** The event holds the object as it is now; later changes of the object do not reach it. */
  emit<Type extends EventType>(
    account: Owner,
    type: Type,
    object: EventObjects[Type],
    previousAttributes?: Partial<EventObjects[Type]>,
  ): SimulatedEvent {
    const { apiVersion, livemode } = this.#settings.of(account)
    const event: SimulatedEvent = {
      id: newId('evt'),
      object: 'event',
      ...(account !== null && { account }),
      api_version: apiVersion,
      created: this.#clock.now(),
      data: withLivemode(livemode, {
        object: asOfVersion(apiVersion, asEmbedded(object)),
        ...(previousAttributes !== undefined && { previous_attributes: previousAttributes }),
      }),
      livemode,
      pending_webhooks: 1,
      request: this.#cause,
      type,
    }
    this.#events.add(account, event)
    if (this.#events.size > eventsKept) this.#forgetOldest()
    this.#deliver(event)
    return event
  }

  #forgetOldest(): void {
    const oldest = this.#events.oldest()
    if (oldest !== undefined) this.#events.forget(oldest.account, oldest.object.id)
  }
}

type Members = Record<string, unknown>

const mostEmbedded = 10

/** The lists that an object holds the first page of; the rest is read from the list's own address. */
const lists: Readonly<Record<string, string>> = { invoice: 'lines', subscription: 'items' }

/** An object as it travels, with what is expanded in it and in each member of a list. */
export function asEmbedded<Value>(value: Value): Value {
  if (Array.isArray(value)) return value.map((member: unknown) => asEmbedded(member)) as Value
  if (typeof value !== 'object' || value === null) return value
  const members = Object.entries(value).map(([name, member]) => [name, asEmbedded(member)] as const)
  const copy: Members = Object.fromEntries(members)
  const field = lists[String(copy['object'])]
  const list = field === undefined ? undefined : (copy[field] as { data: unknown[] } | undefined)
  if (field !== undefined && list && list.data.length > mostEmbedded) {
    copy[field] = { ...list, data: list.data.slice(0, mostEmbedded), has_more: true }
  }
  return copy as Value
}

/** A copy that says everywhere whether it is about real money. */
export function withLivemode<Value extends object>(livemode: boolean, value: Value): Value {
  if (!livemode) return structuredClone(value)
  return JSON.parse(JSON.stringify(value), (key, member: unknown) =>
    key === 'livemode' ? true : member,
  ) as Value
}
