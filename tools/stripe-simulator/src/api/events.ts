import { findOwned } from '../flows/find.ts'
import { invalidRequest } from '../http/stripe-error.ts'
import type { SimulatedEvent } from '../objects/event.ts'
import { page, type Call, type Handler } from './call.ts'
import { eventList, noParameters } from './parameters.ts'

const maxTypes = 20

/** @param undelivered whether the platform's endpoint has not received an event */
export function eventHandlers(undelivered: (eventId: string) => boolean): {
  getEvent: Handler
  listEvents: Handler
} {
  return {
    getEvent({ world, account, id, params }: Call): object {
      params.accept(noParameters)
      return withPending(findOwned(world.events, 'event', account, id))
    },

    listEvents({ world, account, params }: Call): object {
      params.accept(eventList)
      const types = params.strings('types')
      if (types.length > maxTypes) {
        throw invalidRequest(`At most ${maxTypes} types.`, { param: 'types' })
      }
      const type = params.string('type')
      const success = params.boolean('delivery_success')
      const found = world.events.list(
        account,
        (event) =>
          (types.length === 0 || types.some((each) => matches(each, event.type))) &&
          (type === undefined || matches(type, event.type)) &&
          (success === undefined || success !== undelivered(event.id)),
      )
      const result = page('/v1/events', params, found)
      return { ...result, data: result.data.map(withPending) }
    },
  }

  function withPending(event: SimulatedEvent): SimulatedEvent {
    return { ...event, pending_webhooks: undelivered(event.id) ? 1 : 0 }
  }
}

/** `customer.*` names a family of types. */
function matches(wanted: string, type: string): boolean {
  return wanted.endsWith('.*') ? type.startsWith(wanted.slice(0, -1)) : wanted === type
}
