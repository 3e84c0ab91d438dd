import type { Database, Transaction } from '@licensing/database/connect'
import type { Logger } from '@licensing/process/log'
import type { Source } from '@licensing/proto/event-streams'
import type { Event } from '@licensing/proto/events'
import type { Nats } from './connection.ts'

/** An event as a consumer gets it. */
export interface Received {
  event: Event
  /** The bytes that were appended. */
  payload: Uint8Array
  /** W3C trace context of the change, if it was traced. */
  traceParent: string | undefined
}

/** A handler throws this if its events are too much work for one transaction. */
export class BatchTooLarge extends Error {
  override name = 'BatchTooLarge'
  /** The largest number of events that the handler accepts together. */
  readonly maxBatchSize: number

  constructor(maxBatchSize: number) {
    super(`at most ${maxBatchSize} of these events can be consumed together`)
    this.maxBatchSize = maxBatchSize
  }
}

export interface ConsumerOptions {
  sql: Database
  nats: Nats
  /** Name of the consuming service, as in `consumersOf`. */
  service: string
  source: Source
  log: Logger
  /**
   * Consumes events of one partition, in order, in the transaction that moves the position. May run again after a rollback.
   * If it returns a function, this is called after the commit. If it throws `BatchTooLarge`, it gets fewer events at a time.
   */
  handle: (tx: Transaction, events: Received[]) => Promise<void | (() => void)>
  /**
   * Returns the ids of the events that have already had their effects. It is called only for events that may have been
   * consumed under another number before an epoch began, or as a part of a batch. If it is absent, `handle` must do nothing when repeated.
   */
  findKnown?: (tx: Transaction, events: Received[]) => Promise<Set<string>>
  /** Called after the commit of each batch. */
  committed?: () => void
  /** Whether a failure of `handle` is transient: its events are then tried until they succeed. */
  isTransient: (error: unknown) => boolean
}
