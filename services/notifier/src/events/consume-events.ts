import { timestampDate } from '@bufbuild/protobuf/wkt'
import type { Transaction } from '@licensing/database/connect'
import type { Received } from '@licensing/events/consumer-options'
import { isMember } from '@licensing/proto/closed-sets'
import type { Event } from '@licensing/proto/events'
import { Counter } from 'prom-client'
import { insertAlerts } from '../alerts/alert-queries.ts'
import type { NewAlert } from '../alerts/alert-queries.ts'
import { insertDeferred } from './deferred-event-queries.ts'
import { findRecordedIds } from './event-queries.ts'
import { recordEvents, validTraceParent } from './record-events.ts'
import type { Recorded } from './record-events.ts'

/** Consumes domain events. Events of accounts that have deferred events are consumed only if `alsoDeferred` is set. */
export type Consume = (tx: Transaction, received: Received[], alsoDeferred: boolean) => Promise<Recorded>

/** Consumes a batch of domain events: events with a webhook type are recorded and sent, alerts are mailed. */
export function consumeEvents(
  deps: Parameters<typeof recordEvents>[0] & { alertQueued: () => void },
): Consume {
  return async (tx, received, alsoDeferred) => {
    const { send, deferred } = await recordEvents(deps, tx, received, { alsoDeferred })
    const alerts = received.flatMap(({ event }) => (deferred.has(event.accountId) ? [] : alertOf(event)))
    await insertAlerts(tx, alerts)
    const sendAll = () => {
      send()
      if (alerts.length > 0) deps.alertQueued()
    }
    return { send: sendAll, deferred }
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

// An account's share of a batch. The events behind it in the partition wait for it.
const maxPerAccount = 50

const deferredTotal = new Counter({
  name: 'events_deferred_total',
  help: 'Events of accounts that sent more at once than their share: recorded in turns with the events of other accounts',
})

/**
 * Keeps one account from delaying the others of its partition. If it sends more than its share of a batch, all of these
 * events are deferred, which costs little, and the events of other accounts are recorded at once. The account's later events
 * are deferred too, so that they stay in order.
 *
 * @param on.deferred called after the commit of deferred events
 * @param on.others called if the batch has events of accounts that have no deferred events
 */
export function deferExcessEvents(consume: Consume, on: { deferred: () => void; others: () => void }) {
  return async (tx: Transaction, received: Received[]): Promise<() => void> => {
    const counts = new Map<string, number>()
    for (const { event } of received) counts.set(event.accountId, (counts.get(event.accountId) ?? 0) + 1)
    const exceedsShare = ({ event }: Received) => counts.get(event.accountId)! > maxPerAccount
    const withinShare = received.filter((each) => !exceedsShare(each))
    const { send, deferred: accounts } = await consume(tx, withinShare, false)
    const deferred = received.filter((each) => exceedsShare(each) || accounts.has(each.event.accountId))
    if (withinShare.some(({ event }) => !accounts.has(event.accountId))) on.others()
    if (deferred.length === 0) return send
    await insertDeferred(tx, deferred.map(toDeferred))
    return () => {
      send()
      deferredTotal.inc(deferred.length)
      on.deferred()
    }
  }
}

function toDeferred({ event, payload, traceParent }: Received) {
  return { account_id: event.accountId, payload, trace_parent: validTraceParent(traceParent) }
}

// The clock of the service that made an event and the clock of this service may differ by this much.
const clockMarginMs = 5 * 60_000

/**
 * Which of these events were recorded, deferred or stored as alerts before. Called only after the log of a service was set
 * back to an earlier state. There is no index by event id, so it reads all events of these accounts since the oldest one.
 */
export async function findKnownEvents(tx: Transaction, received: Received[]): Promise<Set<string>> {
  const times = received.map(({ event }) =>
    event.occurredAt ? timestampDate(event.occurredAt).getTime() : 0,
  )
  const since = new Date(Math.min(...times) - clockMarginMs)
  const ids = await findRecordedIds(
    tx,
    received.map(({ event: { id, accountId, payload: change }, payload }) => ({
      id,
      accountId,
      payload,
      alert: change.case === 'vendorAlert' ? change.value.text : null,
    })),
    since,
  )
  return new Set(ids)
}
