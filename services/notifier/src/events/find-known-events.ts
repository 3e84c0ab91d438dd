import type { Transaction } from '@licensing/database/connect'
import type { Received } from '@licensing/events/consumer-options'
import { timestampDate } from '@bufbuild/protobuf/wkt'
import { findRecordedIds } from './event-queries.ts'

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
