import { createHmac } from 'node:crypto'
import type { Arrival, Endpoint, Envelope, Outcome } from '../outcome.ts'
import { groupBy, sentTo, duplicates, type Rule } from './rule.ts'

/**
 * The time from which each acknowledged URL must receive events: the time of the answer, because an endpoint exists from its
 * commit, which is later than its timestamp.
 */
function registrations(outcome: Outcome): Map<string, number> {
  return new Map(
    sentTo(outcome, 'create endpoint')
      .filter(({ answered }) => answered === 'acknowledged')
      .map(({ asked, to }) => [asked.url, to] as const),
  )
}

/** The endpoint of each test event with an answered request. A test event is sent only to its endpoint. */
function testTargets(outcome: Outcome): Map<string, string> {
  return new Map(
    sentTo(outcome, 'test').map(({ asked, body }) => [String(body['event_id']), asked.endpointId] as const),
  )
}

/** Every event that was recorded while an endpoint existed has exactly one delivery to it. */
export const oneDeliveryEach: Rule = (outcome) => {
  const targets = testTargets(outcome)
  const known = new Set(outcome.deliveries.map(({ endpointId, eventId }) => `${endpointId} ${eventId}`))
  const appOf = new Map(outcome.endpoints.map(({ id, appId }) => [id, appId]))
  const eventOf = new Map(outcome.events.map((event) => [event.id, event]))
  const registeredAt = registrations(outcome)
  const due = (endpoint: Endpoint, event: Envelope) => {
    if (endpoint.appId !== event.appId || endpoint.status !== 'enabled') return false
    if (event.type === 'webhook.test') return targets.get(event.id) === endpoint.id
    return event.createdAt > (registeredAt.get(endpoint.url) ?? Number.POSITIVE_INFINITY)
  }
  const missing = outcome.endpoints.flatMap((endpoint) =>
    outcome.events
      .filter((event) => due(endpoint, event) && !known.has(`${endpoint.id} ${event.id}`))
      .map((event) => `event ${event.id} (${event.type}) has no delivery to ${endpoint.id}`),
  )
  const unexpected = outcome.deliveries
    .filter(({ endpointId, eventId }) => appOf.get(endpointId) !== eventOf.get(eventId)?.appId)
    .map(({ id }) => `delivery ${id} has an event that its endpoint must not get`)
  return [
    ...missing,
    ...unexpected,
    ...duplicates(outcome.deliveries.map(({ endpointId, eventId }) => `${endpointId} ${eventId}`)).map(
      (key) => `there are two deliveries of ${key}`,
    ),
  ]
}

/** An enabled endpoint has received all its events. The status of its deliveries is correct, and no delivery is pending. */
export const delivered: Rule = ({ deliveries, endpoints, arrivals }) => {
  const endpointOf = new Map(endpoints.map((endpoint) => [endpoint.id, endpoint]))
  const accepted = new Set(
    arrivals.filter((arrival) => arrival.accepted).map(({ url, eventId }) => `${url} ${eventId}`),
  )
  return deliveries.flatMap(({ id, endpointId, eventId, status }) => {
    const endpoint = endpointOf.get(endpointId)
    if (!endpoint) return [`delivery ${id} is to ${endpointId}, which does not exist`]
    const arrived = accepted.has(`${endpoint.url} ${eventId}`)
    if (status === 'delivered' && !arrived)
      return [`delivery ${id} says delivered and ${eventId} never arrived`]
    if (endpoint.status === 'disabled')
      return status === 'pending' ? [`delivery ${id} waits for a disabled endpoint`] : []
    if (endpoint.dead || status === 'delivered') return []
    return [`delivery ${id} of ${eventId} to ${endpointId} is ${status}`]
  })
}

/** Every received event is in the feed with the same bytes, and is signed with a secret of the endpoint. */
export const arrivalsMatch: Rule = (outcome) => {
  const eventOf = new Map(outcome.events.map((event) => [event.id, event]))
  const secrets = secretsByUrl(outcome)
  const endpointOf = new Map(outcome.endpoints.map((endpoint) => [endpoint.url, endpoint]))
  return outcome.arrivals.flatMap((arrival) => {
    const event = eventOf.get(arrival.eventId)
    if (!event) return [`${arrival.eventId} arrived and is not in the feed`]
    if (endpointOf.get(arrival.url)?.appId !== event.appId)
      return [`${event.id} arrived at another application's endpoint`]
    if (event.body !== arrival.body) return [`${event.id} arrived with other bytes than the feed's`]
    const known = secrets.get(arrival.url)
    const signed = known === undefined || known.some((secret) => isSigned(arrival, secret))
    return signed ? [] : [`${event.id} arrived at ${arrival.url} with a signature of another secret`]
  })
}

/** All secrets of each endpoint; absent if a request without an answer may have created another secret. */
function secretsByUrl(outcome: Outcome): Map<string, string[]> {
  const urlOf = new Map(outcome.endpoints.map(({ id, url }) => [id, url]))
  const shown = [
    ...sentTo(outcome, 'create endpoint').map(({ asked, answered, body }) => ({
      url: asked.url,
      answered,
      body,
    })),
    ...sentTo(outcome, 'rotate').map(({ asked, answered, body }) => ({
      url: urlOf.get(asked.endpointId) ?? '',
      answered,
      body,
    })),
  ]
  return new Map(
    [...groupBy(shown, ({ url }) => url)]
      .filter(([, all]) => all.every(({ answered }) => answered !== 'unknown'))
      .map(([url, all]) => [
        url,
        all.filter(({ answered }) => answered === 'acknowledged').map(({ body }) => String(body['secret'])),
      ]),
  )
}

function isSigned({ body, signature }: Arrival, secret: string): boolean {
  const [, time = '', mac = ''] = /^t=([0-9]+),v1=([0-9a-f]+)$/.exec(signature) ?? []
  return createHmac('sha256', secret).update(`${time}.${body}`).digest('hex') === mac
}
