import type { SimulatedEvent } from '../objects/event.ts'
import { asOfVersion } from '../objects/api-version.ts'
import type { World } from '../world/world.ts'
import type { Endpoint } from './post.ts'

/** The endpoints that were created through the API and want this event, each with the event in its own version. */
export function createdEndpointsFor(
  world: World,
  event: SimulatedEvent,
): { endpoint: Endpoint; event: SimulatedEvent }[] {
  return world.webhookEndpoints
    .dump()
    .map(({ object }) => object)
    .filter(({ status, application, enabled_events: types }) => {
      // A Connect endpoint names the application.
      const wanted = (application !== null) === (event.account !== undefined)
      return status === 'enabled' && wanted && (types.includes('*') || types.includes(event.type))
    })
    .map(({ url, secret = '', enabled_events: enabledEvents, api_version: version }) => ({
      endpoint: { url, secret, enabledEvents },
      event: version === null ? event : inVersion(event, version),
    }))
}

function inVersion(event: SimulatedEvent, version: string): SimulatedEvent {
  const object = asOfVersion(version, event.data.object)
  return { ...event, api_version: version, data: { ...event.data, object } }
}
