import { timestampDate } from '@bufbuild/protobuf/wkt'
import type { Transaction } from '@licensing/database/connect'
import type { Received } from '@licensing/events/consumer-options'
import { isMember } from '@licensing/proto/closed-sets'
import type { Event } from '@licensing/proto/events'
import { insertAlerts } from '../alerts/alert-queries.ts'
import type { NewAlert } from '../alerts/alert-queries.ts'
import { findRecordedIds } from './event-queries.ts'
import { recordEvents } from './record-events.ts'

/** Consumes a batch of domain events: events with a webhook type are recorded and sent, alerts are mailed. */
export function consumeEvents(
  deps: Parameters<typeof recordEvents>[0] & { alertQueued: () => void },
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
