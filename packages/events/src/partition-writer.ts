import { fromBinary } from '@bufbuild/protobuf'
import type { Sql } from '@licensing/database/connect'
import { Outage } from '@licensing/database/outage'
import { transaction } from '@licensing/database/transaction'
import { pause, pauseAfter } from '@licensing/process/retry'
import type { EventBatch, LoggedEvent } from '@licensing/proto/event-log'
import { streamOf } from '@licensing/proto/event-streams'
import { EventSchema } from '@licensing/proto/events'
import { Counter } from 'prom-client'
import { BatchTooLarge } from './consumer-options.ts'
import type { ConsumerOptions, Received } from './consumer-options.ts'
import { deleteForgotten, listPositions, movePosition } from './consumer-queries.ts'
import type { Place, Position } from './consumer-queries.ts'
import { findDeadLetters, insertDeadLetter } from './dead-letter-queries.ts'
import type { LogAnswer } from './log-client.ts'

/** Most events in a transaction. */
const maxBatchSize = 500
const poisonTries = 5

const labelNames = ['stream']
const consumed = new Counter({ name: 'events_consumed_total', help: 'Events consumed', labelNames })
const deadLettered = new Counter({
  name: 'events_dead_lettered_total',
  help: 'Events that could not be consumed: run licensing-admin dead-letters',
  labelNames,
})

/** Another replica reads the partition: this one stops when it renews its leases. */
export class PartitionLost extends Error {}

/** An event, and the position after it is consumed. */
interface Entry {
  logged: LoggedEvent
  /** Undefined if its bytes are no event. */
  received: Received | undefined
  /** Whether it may have been consumed already: under another number before an epoch began, or as a part of its batch. */
  mayBeKnown: boolean
  after: Position
}

/** Passes the events of a partition to the handler, and stores the position in the transaction of their effects. */
export class PartitionWriter {
  readonly #options: ConsumerOptions
  readonly #place: Place
  readonly #stream: string
  readonly #outage = new Outage()
  #position: Position
  #log: LogAnswer | undefined

  constructor(options: ConsumerOptions, place: Place, position: Position) {
    this.#options = options
    this.#place = place
    this.#position = position
    this.#stream = streamOf(options.source)
  }

  get position(): Position {
    return this.#position
  }

  /** Reads the position again. @returns when it last moved */
  async reload(): Promise<Date> {
    const { sql, source } = this.#options
    const found = (await listPositions(sql, source)).find((row) => row.partition === this.#place.partition)
    if (!found) throw new PartitionLost('the position is missing')
    this.#position = found
    return found.moved_at
  }

  /** Moves the position without events. */
  async moveTo(to: Position, log: LogAnswer): Promise<void> {
    this.#log = log
    await transaction(this.#options.sql, (tx) => this.#move(tx, to))
    this.#position = to
  }

  /**
   * Consumes the batches that follow the position, as many events in a transaction as possible. If some cannot be consumed
   * together, each is tried alone. An event that fails alone with an error that is not transient is tried five times and then
   * kept for an operator.
   *
   * @param log the answer that the batches are from; only such batches can be of a later epoch than the position
   */
  async consume(batches: EventBatch[], signal: AbortSignal, log?: LogAnswer): Promise<void> {
    this.#log = log
    const entries = entriesOf(batches, this.#position)
    let at = 0
    let batchSize = maxBatchSize
    let tries = 0
    while (at < entries.length && !signal.aborted) {
      const part = entries.slice(at, at + batchSize)
      let afterCommit: void | (() => void) = undefined
      try {
        afterCommit = await this.#commit(part)
      } catch (error) {
        if (error instanceof PartitionLost) throw error
        const isTransient = this.#options.isTransient(error)
        const isTooMany = error instanceof BatchTooLarge && error.maxBatchSize < part.length
        if (!isTransient && part.length > 1) {
          batchSize = isTooMany ? error.maxBatchSize : 1
          tries = 0
          continue
        }
        tries += 1
        if (isTransient || (tries < poisonTries && part[0]!.received)) {
          this.#report(error, part, tries)
          await pause(pauseAfter({ firstMs: 100, maxMs: 2_000 }, tries), signal)
          continue
        }
        await this.#deadLetter(part[0]!, error)
        batchSize = maxBatchSize
      }
      at += part.length
      tries = 0
      afterCommit?.()
      this.#options.committed?.()
    }
  }

  /** Handles events and moves the position, in one transaction. @returns the handler's function for after the commit */
  async #commit(entries: Entry[]): Promise<void | (() => void)> {
    const { after } = entries.at(-1)!
    const afterCommit = await transaction(this.#options.sql, async (tx) => {
      // The handler's first statements are sent together with the move, so that an event takes one round trip less.
      const moving = this.#move(tx, after)
      if (this.#isLaterEpoch(after)) await moving
      const [, outcome] = await allDone([moving, this.#handle(tx, entries)])
      return outcome
    })
    this.#position = after
    this.#outage.over()
    consumed.inc({ stream: this.#stream }, entries.length)
    return afterCommit
  }

  #report(error: unknown, part: Entry[], tries: number): void {
    if (!this.#outage.isNews(error)) return
    const [first] = part as [Entry]
    const which = part.length === 1 ? logFieldsOf(first) : {}
    this.#options.log.warn(
      { err: error, stream: this.#stream, tries, number: first.after.number, ...which },
      'event could not be consumed, trying again',
    )
  }

  async #handle(tx: Parameters<ConsumerOptions['handle']>[0], entries: Entry[]) {
    const { handle, findKnown, source } = this.#options
    const events = entries.map(({ received }) => {
      if (!received) throw new Error('this is no event')
      return received
    })
    const doubtful = events.filter((_, at) => entries[at]!.mayBeKnown)
    if (doubtful.length === 0) return handle(tx, events)
    const known = (await findKnown?.(tx, doubtful)) ?? new Set()
    const ids = doubtful.map(({ event }) => event.id)
    for (const id of await findDeadLetters(tx, source, ids)) known.add(id)
    const unknown = events.filter(({ event }) => !known.has(event.id))
    return unknown.length > 0 ? handle(tx, unknown) : undefined
  }

  async #move(tx: Sql, to: Position): Promise<void> {
    if (!(await movePosition(tx, this.#place, this.#position, to)))
      throw new PartitionLost('another replica holds this partition')
    // Events of a partition that a restored log does not have are perhaps in this one: it then looks up which were consumed.
    if (this.#log && this.#isLaterEpoch(to)) await deleteForgotten(tx, this.#place.source, this.#log)
  }

  #isLaterEpoch({ epoch }: Position): boolean {
    return epoch > this.#position.epoch
  }

  /** Keeps an event that cannot be consumed as a dead letter. The events after it are consumed. */
  async #deadLetter(entry: Entry, error: unknown): Promise<void> {
    const { log, sql, source } = this.#options
    const { logged, after, received } = entry
    await transaction(sql, async (tx) => {
      await this.#move(tx, after)
      await insertDeadLetter(tx, {
        source,
        partition: this.#place.partition,
        number: after.number,
        payload: logged.event,
        event_id: received?.event.id ?? '',
        account_id: received?.event.accountId ?? '',
        trace_parent: logged.traceParent || null,
        error: error instanceof Error ? error.message : String(error),
      })
    })
    this.#position = after
    deadLettered.inc({ stream: this.#stream })
    log.error({ err: error, stream: this.#stream, ...logFieldsOf(entry) }, 'event moved to the dead letters')
  }
}

/**
 * The events of batches that follow a position. If a part of the first batch is consumed, its events are looked up: the batch
 * may be another one than before.
 */
function entriesOf(batches: EventBatch[], from: Position): Entry[] {
  return batches.flatMap(({ epoch, number, events, precedesEpoch }, batch) =>
    events.map((logged, at) => ({
      logged,
      received: received(logged),
      mayBeKnown: precedesEpoch || (batch === 0 && from.done > 0),
      after:
        at === events.length - 1 ? { epoch, number, done: 0 } : { epoch, number: number - 1n, done: at + 1 },
    })),
  )
}

function received({ event: payload, traceParent }: LoggedEvent): Received | undefined {
  try {
    return { event: fromBinary(EventSchema, payload), payload, traceParent: traceParent || undefined }
  } catch {
    return undefined
  }
}

/** Identifies an event in the log: its id, its account, and the request that caused it. */
function logFieldsOf({ received: known }: Entry): Record<string, string> {
  if (!known) return {}
  const { id, accountId, requestId } = known.event
  return { event_id: id, account_id: accountId, ...(requestId && { request_id: requestId }) }
}

/**
 * Like `Promise.all`, but waits until all have ended, and then throws the error of the first in the list that failed. So
 * nothing still uses a transaction while it is rolled back.
 */
async function allDone<T extends readonly unknown[] | []>(promises: T) {
  await Promise.allSettled(promises)
  return Promise.all(promises)
}
