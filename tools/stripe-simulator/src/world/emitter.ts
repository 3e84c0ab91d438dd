import { apiVersion } from '../objects/api-version.ts'
import type { Cause, EventObjects, EventType, SimulatedEvent } from '../objects/event.ts'
import type { Clock } from './clock.ts'
import type { Collection, Owner } from './collection.ts'
import { newId } from './ids.ts'

const nobody: Cause = { id: null, idempotency_key: null }
const eventsKept = 10_000

/** Creates events, keeps them for `GET /v1/events`, and passes them on for delivery. */
export class Emitter {
  readonly #clock: Clock
  readonly #events: Collection<SimulatedEvent>
  #cause = nobody
  #deliver: (event: SimulatedEvent) => void = () => undefined

  constructor(clock: Clock, events: Collection<SimulatedEvent>) {
    this.#clock = clock
    this.#events = events
  }

  deliverWith(deliver: (event: SimulatedEvent) => void): void {
    this.#deliver = deliver
  }

  /** Runs an action. The events that it emits have this cause in `request`. */
  causedBy<Result>(cause: Cause, action: () => Result): Result {
    const before = this.#cause
    this.#cause = cause
    try {
      return action()
    } finally {
      this.#cause = before
    }
  }

  /** Emits an event with a copy of the object, so that later changes of the object do not change the event. */
  emit<Type extends EventType>(
    account: Owner,
    type: Type,
    object: EventObjects[Type],
    previousAttributes?: Partial<EventObjects[Type]>,
  ): SimulatedEvent {
    const event: SimulatedEvent = {
      id: newId('evt'),
      object: 'event',
      ...(account !== null && { account }),
      api_version: apiVersion,
      created: this.#clock.now(),
      data: structuredClone({
        object: asEmbedded(object),
        ...(previousAttributes !== undefined && { previous_attributes: previousAttributes }),
      }),
      livemode: false,
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

const maxEmbedded = 10

/** The list of each object of which only the first page is embedded. The rest is read from the list's URL. */
const lists: Readonly<Record<string, string>> = { invoice: 'lines', subscription: 'items' }

/** An object as JSON: embedded lists are cut to their first page, also in expanded objects and members of lists. */
export function asEmbedded<Value>(value: Value): Value {
  if (Array.isArray(value)) return value.map((member: unknown) => asEmbedded(member)) as Value
  if (typeof value !== 'object' || value === null) return value
  const members = Object.entries(value).map(([name, member]) => [name, asEmbedded(member)] as const)
  const copy: Members = Object.fromEntries(members)
  const field = lists[String(copy['object'])]
  const list = field === undefined ? undefined : (copy[field] as { data: unknown[] } | undefined)
  if (field !== undefined && list && list.data.length > maxEmbedded) {
    copy[field] = { ...list, data: list.data.slice(0, maxEmbedded), has_more: true }
  }
  return copy as Value
}
