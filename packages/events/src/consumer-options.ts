import type { Database, Transaction } from '@licensing/database/connect'
import type { Logger } from '@licensing/process/log'
import type { Event } from '@licensing/proto/events'
import type { Nats } from './connection.ts'
import type { Source } from '@licensing/proto/event-streams'

/** An event as a consumer gets it. */
export interface Received {
  event: Event
  /** The bytes that were published. */
  payload: Uint8Array
  /** W3C trace context of the change, where it was traced. */
  traceParent: string | undefined
}

/** Thrown by a handler whose work on all that it was given would be too much for one transaction. */
export class BatchTooLarge extends Error {
  override name = 'BatchTooLarge'
  /** How many of the events it is to be given at a time instead. */
  readonly mostTogether: number

  constructor(mostTogether: number) {
    super(`at most ${mostTogether} of these events can be consumed together`)
    this.mostTogether = mostTogether
  }
}

export interface ConsumerOptions {
  sql: Database
  nats: Nats
  /** Name of the consuming service; its durable consumers are `<service>-<partition>`. */
  service: string
  source: Source
  streamReplicas: number
  log: Logger
  /**
   * Consumes events of one partition, in order, in the transaction that records them as consumed. Where one of them was
   * consumed before, that transaction is rolled back, and it is given the others. May also run again after any other
   * rollback. What it returns, if anything, is called after the commit of what it did. Where it throws `BatchTooLarge`, it is given fewer at a time.
   */
  handle: (tx: Transaction, events: Received[]) => Promise<void | (() => void)>
  /** Milliseconds between comparisons of what the stream holds with what was consumed; 10 s when absent. */
  auditEveryMs?: number
  /** Called after the commit of each batch. */
  committed?: () => void
  /** Whether a failure of `handle` will pass by itself, so that it is tried until it succeeds rather than parked. */
  isTransient: (error: unknown) => boolean
}
