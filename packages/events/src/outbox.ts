import { create, toBinary } from '@bufbuild/protobuf'
import type { MessageInitShape } from '@bufbuild/protobuf'
import { timestampFromDate } from '@bufbuild/protobuf/wkt'
import type { Database, Sql, Transaction } from '@licensing/database/connect'
import { newId } from '@licensing/database/ids'
import { sendAlong, transaction } from '@licensing/database/transaction'
import { requestContext } from '@licensing/process/context'
import { traceHeaders } from '@licensing/process/telemetry'
import { EventSchema } from '@licensing/proto/events'
import { eventName } from '@licensing/proto/webhook-events'
import { insertEvents } from './outbox-queries.ts'
import { partitionOf } from './partitions.ts'

/** An event about to be appended: its id and time are given by `append`. */
export interface NewEvent {
  accountId: string
  /** Empty where the change is the account's own. */
  applicationId: string
  payload: NonNullable<MessageInitShape<typeof EventSchema>['payload']>
  /** When the change happened, where that is not now. */
  occurredAt?: Date
}

/** The accounts of the events that a transaction appends. */
const appended = new WeakMap<object, Set<string>>()

/**
 * Writes events in the transaction of the change they tell of: both are committed, or neither. Lock the changed row
 * before; then the order of an aggregate's events is the order of its changes.
 *
 * @returns the events' ids, in the order given
 */
export async function append(tx: Sql, ...events: NewEvent[]): Promise<string[]> {
  if (events.length === 0) return []
  const now = new Date()
  const requestId = requestContext()?.requestId ?? ''
  const rows = events.map(({ accountId, applicationId, payload, occurredAt }) => {
    const id = newId('evt')
    const event = create(EventSchema, {
      id,
      accountId,
      applicationId,
      occurredAt: timestampFromDate(occurredAt ?? now),
      requestId,
      payload,
    })
    return {
      id,
      accountId,
      partition: partitionOf(accountId),
      name: eventName(event),
      payload: toBinary(EventSchema, event),
    }
  })
  await sendAlong(tx, insertEvents(tx, rows, traceHeaders().traceparent ?? null))
  const accounts = appended.get(tx)
  if (accounts) for (const { accountId } of rows) accounts.add(accountId)
  return rows.map((row) => row.id)
}

/** Transactions whose events are on their way as soon as they are committed. */
export interface Outbox {
  /** Like `transaction`, and then tells the relay that there is something to publish. */
  transaction<T>(work: (tx: Transaction) => Promise<T>): Promise<T>
}

/** @param wake called after a commit that appended events, with their accounts; the relay's `wake` */
export function createOutbox(sql: Database, wake: (accounts: ReadonlySet<string>) => void): Outbox {
  return {
    async transaction(work) {
      let accounts = new Set<string>()
      const result = await transaction(sql, async (tx) => {
        accounts = new Set()
        appended.set(tx, accounts)
        try {
          return await work(tx)
        } finally {
          // V8 keeps the values of a WeakMap until it collects the whole heap.
          appended.delete(tx)
        }
      })
      if (accounts.size > 0) wake(accounts)
      return result
    },
  }
}
