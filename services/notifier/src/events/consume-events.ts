import { timestampDate } from '@bufbuild/protobuf/wkt'
import type { Transaction } from '@licensing/database/connect'
import type { Received } from '@licensing/events/consumer-options'
import { isMember } from '@licensing/proto/closed-sets'
import type { Event } from '@licensing/proto/events'
import { Counter } from 'prom-client'
import { insertAlert } from '../alerts/alert-queries.ts'
import type { NewAlert } from '../alerts/alert-queries.ts'
import { insertDeferred } from './deferred-event-queries.ts'
import { findRecordedIds } from './event-queries.ts'
import { recordEvents, validTraceParent } from './record-events.ts'
import type { Recorded } from './record-events.ts'

/** Consumes domain events, with those of accounts that have some in line only where it is to `passLine`. */
export type Consume = (tx: Transaction, received: Received[], passLine: boolean) => Promise<Recorded>

/** Consumes a batch of domain events: those with a webhook type are recorded and sent, alerts are mailed. */
export function consumeEvents(
  deps: Parameters<typeof recordEvents>[0] & { alertQueued: () => void },
): Consume {
  return async (tx, received, passLine) => {
    const { send, inLine } = await recordEvents(deps, tx, received, { passLine })
    const alerts = received.flatMap(({ event }) => (inLine.has(event.accountId) ? [] : alertOf(event)))
    for (const alert of alerts) await insertAlert(tx, alert)
    const sendAll = () => {
      send()
      if (alerts.length > 0) deps.alertQueued()
    }
    return { send: sendAll, inLine }
  }
}

function alertOf({ accountId, applicationId, payload }: Event): NewAlert[] {
  if (payload.case !== 'vendorAlert') return []
  const { kind, subject, text } = payload.value
  return [
    {
      kind: kind !== undefined && isMember('alertKind', kind) ? kind : null,
      accountId,
      applicationId: applicationId || null,
      endpointId: null,
      subject,
      text,
    },
  ]
}

// Of one account in one batch: what follows them in their partition waits meanwhile.
const mostOfAccount = 50

const deferredTotal = new Counter({
  name: 'events_deferred_total',
  help: 'Events of accounts that sent more at once than their share: recorded in turn with those of others',
})

/**
 * An account's share of a partition: where it sends more at once, all of that is put into a line of its own, which costs
 * little, and the events of other accounts behind it are recorded at once. Its later events follow through the line, in
 * order.
 *
 * @param on.deferred called after the commit of events that were put in line
 * @param on.others called where there are events of accounts that have none in line
 */
export function shareEvents(consume: Consume, on: { deferred: () => void; others: () => void }) {
  return async (tx: Transaction, received: Received[]): Promise<() => void> => {
    const counts = new Map<string, number>()
    for (const { event } of received) counts.set(event.accountId, (counts.get(event.accountId) ?? 0) + 1)
    const hasMany = ({ event }: Received) => counts.get(event.accountId)! > mostOfAccount
    const few = received.filter((each) => !hasMany(each))
    const { send, inLine } = await consume(tx, few, false)
    const deferred = received.filter((each) => hasMany(each) || inLine.has(each.event.accountId))
    if (few.some(({ event }) => !inLine.has(event.accountId))) on.others()
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

// The clocks of the service that made an event and of this one may differ by so much.
const clockMarginMs = 5 * 60_000

/**
 * Which of these events have been recorded, put in line or alerted already. Asked only after a service's log was set back:
 * it reads all events of these accounts since the oldest of these, since events are not found by their ids.
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
