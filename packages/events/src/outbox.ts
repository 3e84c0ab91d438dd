import { create, toBinary } from '@bufbuild/protobuf'
import type { MessageInitShape } from '@bufbuild/protobuf'
import { timestampFromDate } from '@bufbuild/protobuf/wkt'
import type { Sql } from '@licensing/database/connect'
import { newId } from '@licensing/database/ids'
import { sendAlong } from '@licensing/database/transaction'
import { currentTime } from '@licensing/process/clock'
import { requestContext } from '@licensing/process/context'
import { traceHeaders } from '@licensing/process/telemetry'
import { EventBatchSchema } from '@licensing/proto/event-log'
import { EventSchema } from '@licensing/proto/events'
import type { Event } from '@licensing/proto/events'
import { insertEvents } from './outbox-queries.ts'
import { hashOf } from './partitions.ts'

/** An event about to be appended: its id and time are given by `append`. */
export interface NewEvent {
  accountId: string
  /** Empty if the change concerns the account itself. */
  applicationId: string
  payload: NonNullable<MessageInitShape<typeof EventSchema>['payload']>
  /** The plan of the licence that the event is about, unless it is about no licence. */
  licencePlanId?: string | undefined
  /** When the change happened, if that is not now. */
  occurredAt?: Date
  /** The call that makes the change, if it is not the current call. */
  origin?: Origin
}

/** The call that causes an event, for logs and traces of its consumers. */
export interface Origin {
  requestId: string
  traceParent: string | null
}

// An event that is the last of a batch, and an answer with this batch, must fit into a NATS message (1 MiB).
const maxEventBytes = 512 * 1024

/** The current call. */
export function currentOrigin(): Origin {
  return { requestId: requestContext()?.requestId ?? '', traceParent: traceHeaders().traceparent ?? null }
}

/** Transactions that have appended events. */
const appending = new WeakSet<object>()

/**
 * Writes events in the transaction of the change that they report: both are committed, or neither. Lock the changed row
 * first, so that the order of an aggregate's events is the order of its changes.
 *
 * @returns the events' ids, in the order given
 * @throws Error if an event is too large for NATS
 */
export async function append(tx: Sql, ...events: NewEvent[]): Promise<string[]> {
  if (events.length === 0) return []
  const now = currentTime()
  const current = currentOrigin()
  const ids = events.map(() => newId('evt'))
  const rows = events.map(({ occurredAt, origin = current, ...given }, at) => {
    const event = create(EventSchema, {
      ...given,
      id: ids[at]!,
      occurredAt: timestampFromDate(occurredAt ?? now),
      requestId: origin.requestId,
    })
    const bytes = batchOf(event, origin.traceParent)
    if (bytes.length > maxEventBytes) {
      throw new Error(
        `an event of ${bytes.length} bytes (${given.payload.case}) is too large: at most ${maxEventBytes}`,
      )
    }
    return { account_id: given.accountId, account_hash: hashOf(given.accountId), payload: bytes }
  })
  await sendAlong(tx, insertEvents(tx, rows))
  appending.add(tx)
  return ids
}

/** An encoded batch that contains only this event. */
export function batchOf(event: Event, traceParent: string | null): Uint8Array {
  const logged = { event: toBinary(EventSchema, event), traceParent: traceParent ?? '' }
  return toBinary(EventBatchSchema, create(EventBatchSchema, { events: [logged] }))
}

/** Whether events were appended in this transaction. */
export function hasAppended(tx: Sql): boolean {
  return appending.has(tx)
}
