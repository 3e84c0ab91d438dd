import type { Sql } from '@licensing/database/connect'
import { newId } from '@licensing/database/ids'
import type { Received } from '@licensing/events/consumer-options'
import { toWebhook } from '@licensing/proto/webhook-events'
import { insertDeliveries } from '../deliveries/delivery-queries.ts'
import type { NewDelivery } from '../deliveries/delivery-queries.ts'
import type { NotifierDeps } from '../dependencies.ts'
import { lockEnabledEndpoints } from '../endpoints/endpoint-queries.ts'
import type { EndpointRow } from '../endpoints/endpoint-queries.ts'
import { isSubscribed } from '../endpoints/subscription.ts'
import { envelope } from './envelope.ts'
import { insertEvents, takeSequences } from './event-queries.ts'
import type { StoredEvent } from './event-queries.ts'

// W3C trace context.
const isTraceParent = /^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$/

type RecordedEvent = StoredEvent & { type: string }

/**
 * Gives events their sequence and makes a delivery of each for every endpoint that is to have it, in the transaction
 * that consumes them. What the engine has capacity for is leased to it at once.
 *
 * @param only the endpoints that are to have them, instead of those subscribed; locked by the caller
 * @returns to be called after the commit: sends
 */
export async function recordEvents(
  { engine, clock }: Pick<NotifierDeps, 'engine' | 'clock'>,
  tx: Sql,
  received: Received[],
  only?: EndpointRow[],
): Promise<() => void> {
  const webhooks = received.flatMap(({ event, traceParent }) => {
    const webhook = toWebhook(event)
    return webhook ? [{ event, traceParent, webhook }] : []
  })
  if (webhooks.length === 0) return () => {}

  const counts = new Map<string, number>()
  for (const { event } of webhooks) counts.set(event.accountId, (counts.get(event.accountId) ?? 0) + 1)
  const applications = [...new Set(webhooks.map(({ event }) => event.applicationId))]
  // Lock order: endpoints, then sequences.
  const [endpoints, sequences] = await Promise.all([
    only ?? lockEnabledEndpoints(tx, applications),
    takeSequences(tx, counts),
  ])

  const recordedAt = clock.now()
  const events = webhooks.map(({ event, traceParent, webhook }): RecordedEvent => {
    const { id, accountId, applicationId } = event
    const sequence = sequences.get(accountId)! + 1n
    sequences.set(accountId, sequence)
    const body = envelope(event, webhook, sequence)
    return {
      id,
      accountId,
      applicationId,
      sequence,
      body,
      traceParent: traceParent !== undefined && isTraceParent.test(traceParent) ? traceParent : null,
      type: webhook.type,
    }
  })
  const deliveries = fanOut(events, endpoints, only !== undefined, recordedAt)
  const fresh = engine.lease(deliveries, endpoints)
  await Promise.all([insertEvents(tx, recordedAt, events), insertDeliveries(tx, deliveries, fresh.claim)])
  return fresh.send
}

function fanOut(
  events: RecordedEvent[],
  endpoints: EndpointRow[],
  toAll: boolean,
  createdAt: Date,
): NewDelivery[] {
  const byApplication = Map.groupBy(endpoints, (endpoint) => endpoint.applicationId)
  return events.flatMap((event) =>
    (byApplication.get(event.applicationId) ?? [])
      .filter((endpoint) => toAll || isSubscribed(endpoint.subscribedEvents, event.type))
      .map((endpoint): NewDelivery => ({
        id: newId('dlv'),
        accountId: event.accountId,
        applicationId: event.applicationId,
        endpointId: endpoint.id,
        eventId: event.id,
        eventType: event.type,
        recordedAt: createdAt,
        sequence: event.sequence,
        createdAt,
        body: event.body,
        traceParent: event.traceParent,
        attemptCount: 0,
        scheduledAttempts: 0,
        isReplay: false,
      })),
  )
}
