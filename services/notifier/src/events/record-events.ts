import { timestampDate } from '@bufbuild/protobuf/wkt'
import type { Sql, Transaction } from '@licensing/database/connect'
import { isId, newId } from '@licensing/database/ids'
import { sendAlong } from '@licensing/database/transaction'
import { BatchTooLarge } from '@licensing/events/consumer-options'
import type { Received } from '@licensing/events/consumer-options'
import { isMember } from '@licensing/proto/closed-sets'
import type { Event } from '@licensing/proto/events'
import { toWebhook } from '@licensing/proto/webhook-events'
import { insertAlerts } from '../alerts/alert-queries.ts'
import type { NewAlert } from '../alerts/alert-queries.ts'
import { insertDeliveries } from '../deliveries/delivery-queries.ts'
import type { NewDelivery } from '../deliveries/delivery-queries.ts'
import type { NotifierDependencies } from '../dependencies.ts'
import { lockEnabledEndpoints } from '../endpoints/endpoint-queries.ts'
import type { EndpointRow } from '../endpoints/endpoint-queries.ts'
import { isSubscribed } from '../endpoints/endpoint.ts'
import { envelope } from './event.ts'
import { findRecordedIds, insertEvents, takeSequences } from './event-queries.ts'
import type { StoredEvent } from './event-queries.ts'

/** Consumes a batch of domain events: events with a webhook type are recorded and sent, alerts are mailed. */
export function consumeEvents(
  deps: Pick<NotifierDependencies, 'dispatcher' | 'clock'> & { alertQueued: () => void },
): (tx: Transaction, received: Received[]) => Promise<() => void> {
  return async (tx, received) => {
    const send = await recordEvents(deps, tx, received)
    const alerts = received.flatMap(({ event }) => alertOf(event))
    await insertAlerts(tx, alerts)
    return () => {
      send()
      if (alerts.length > 0) deps.alertQueued()
    }
  }
}

function alertOf({ accountId, applicationId, payload }: Event): NewAlert[] {
  if (payload.case !== 'vendorAlert') return []
  const { kind, subject, text } = payload.value
  return [
    {
      // A service of a later release may send a kind that this release does not know.
      kind: isMember('alertKind', kind) ? kind : 'processor_event_parked',
      accountId,
      applicationId: applicationId || null,
      endpointId: null,
      subject,
      text,
    },
  ]
}

// The most deliveries of one transaction: about 10 MB of memory, and a quarter of a second in which other events of the
// partition wait.
const maxDeliveries = 10_000

// W3C trace context.
const isTraceParent = /^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$/

function validTraceParent(text: string | undefined): string | null {
  return text !== undefined && isTraceParent.test(text) ? text : null
}

type RecordedEvent = StoredEvent & { type: string; licence_id: string | null }

/**
 * Gives events their sequence and inserts a delivery for each subscribed endpoint, in the transaction that consumes the
 * events. The dispatcher leases as many of the deliveries as it has capacity for.
 *
 * @param onlyEndpoints sends the events to these endpoints instead of the subscribed ones; the caller has locked them
 * @returns call this function after the commit
 */
export async function recordEvents(
  { dispatcher, clock }: Pick<NotifierDependencies, 'dispatcher' | 'clock'>,
  tx: Sql,
  received: Omit<Received, 'payload'>[],
  onlyEndpoints?: EndpointRow[],
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
    onlyEndpoints ?? lockEnabledEndpoints(tx, applications),
    takeSequences(tx, counts),
  ])

  if (onlyEndpoints === undefined) checkDeliveryCount(received.length, webhooks, endpoints)
  const recordedAt = clock.now()
  const events = webhooks.map(({ event, traceParent, webhook }): RecordedEvent => {
    const { id, accountId, applicationId } = event
    const sequence = sequences.get(accountId)! + 1n
    sequences.set(accountId, sequence)
    const body = envelope(event, webhook, sequence)
    return {
      id,
      account_id: accountId,
      application_id: applicationId,
      sequence,
      body,
      trace_parent: validTraceParent(traceParent),
      type: webhook.type,
      licence_id: licenceOf(webhook.object),
      licence_plan_id: event.licencePlanId ?? null,
    }
  })
  const deliveries = fanOut(events, endpoints, onlyEndpoints !== undefined, recordedAt)
  const lease = dispatcher.lease(deliveries, endpoints)
  await sendAlong(tx, insertEvents(tx, recordedAt, events))
  await insertDeliveries(tx, deliveries, lease.claim)
  return lease.send
}

/** Refuses a batch whose events need more deliveries than fit into memory, so that it is split. */
function checkDeliveryCount(
  received: number,
  webhooks: { event: { applicationId: string } }[],
  endpoints: EndpointRow[],
): void {
  const byApplication = new Map<string, number>()
  for (const { application_id: id } of endpoints) byApplication.set(id, (byApplication.get(id) ?? 0) + 1)
  const max = webhooks.reduce((sum, { event }) => sum + (byApplication.get(event.applicationId) ?? 0), 0)
  if (received > 1 && max > maxDeliveries) {
    throw new BatchTooLarge(Math.max(1, Math.floor((received * maxDeliveries) / max)))
  }
}

function licenceOf({ licence_id: id }: Record<string, unknown>): string | null {
  return typeof id === 'string' && isId('lic', id) ? id : null
}

function fanOut(
  events: RecordedEvent[],
  endpoints: EndpointRow[],
  toAll: boolean,
  createdAt: Date,
): NewDelivery[] {
  const byApplication = Map.groupBy(endpoints, (endpoint) => endpoint.application_id)
  return events.flatMap((event) =>
    (byApplication.get(event.application_id) ?? [])
      .filter((endpoint) => toAll || isSubscribed(endpoint, event))
      .map((endpoint): NewDelivery => ({
        id: newId('dlv'),
        account_id: event.account_id,
        application_id: event.application_id,
        endpoint_id: endpoint.id,
        event_id: event.id,
        event_type: event.type,
        recorded_at: createdAt,
        sequence: event.sequence,
        licence_id: event.licence_id,
        created_at: createdAt,
        body: event.body,
        trace_parent: event.trace_parent,
        attempt_count: 0,
        scheduled_attempts: 0,
        is_replay: false,
      })),
  )
}

// The clock of the service that made an event and the clock of this service may differ by this much.
const clockMarginMs = 5 * 60_000

/**
 * Which of these events were recorded or stored as alerts before. Called only after the log of a service was set
 * back to an earlier state. There is no index by event id, so it reads all events of these accounts since the oldest one.
 */
export async function findKnownEvents(tx: Transaction, received: Received[]): Promise<Set<string>> {
  const times = received.map(({ event }) =>
    event.occurredAt ? timestampDate(event.occurredAt).getTime() : 0,
  )
  const since = new Date(Math.min(...times) - clockMarginMs)
  const ids = await findRecordedIds(
    tx,
    received.map(({ event: { id, accountId, payload: change } }) => ({
      id,
      accountId,
      alert: change.case === 'vendorAlert' ? change.value.text : null,
    })),
    since,
  )
  return new Set(ids)
}
