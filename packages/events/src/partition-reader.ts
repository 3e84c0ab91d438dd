import { fromBinary } from '@bufbuild/protobuf'
import type { Sql } from '@licensing/database/connect'
import { Outage } from '@licensing/database/outage'
import { isDatabaseOutage } from '@licensing/database/problems'
import { transaction } from '@licensing/database/transaction'
import { pause, startLoop } from '@licensing/process/loop'
import type { Loop } from '@licensing/process/loop'
import type { EventBatch, LoggedEvent } from '@licensing/proto/event-log'
import { streamOf } from '@licensing/proto/event-streams'
import { EventSchema } from '@licensing/proto/events'
import { Counter } from 'prom-client'
import { BatchTooLarge } from './consumer-options.ts'
import type { ConsumerOptions, Received } from './consumer-options.ts'
import { listPositions, movePosition } from './consumer-queries.ts'
import type { Place, Position } from './consumer-queries.ts'
import { insertDeadLetter } from './dead-letter-queries.ts'
import { openFeed } from './feed.ts'
import type { Feed } from './feed.ts'
import type { LogClient } from './log-client.ts'
import { leaseMs, pollMs, startMs } from './partitions.ts'
import { isNotFound } from './streams.ts'

const mostTogether = 500
// Reading is behind when more than a few moments' events wait.
const behindFrom = 250
const poisonTries = 5
const retryMs = 500
// The longest timer: a reader that has all events waits for the next one, or for `look`.
const foreverMs = 2 ** 31 - 1
// Clocks of NATS and PostgreSQL may differ. What is read twice is known by its number.
const overlapMs = 60_000

const labelNames = ['stream']
const consumed = new Counter({ name: 'events_consumed_total', help: 'Events consumed', labelNames })
const filled = new Counter({
  name: 'events_filled_total',
  help: 'Batches read from the log of their producer, by cause: a gap in what JetStream sent, or its end missing',
  labelNames: ['stream', 'cause'],
})
const lost = new Counter({
  name: 'event_batches_lost_total',
  help: 'Batches that the log of their producer no longer had: this service was stopped or set back for too long',
  labelNames,
})
const parked = new Counter({
  name: 'events_dead_lettered_total',
  help: 'Events that could not be consumed: run licensing-admin dead-letters',
  labelNames,
})

class PartitionLost extends Error {}

/** An event, and the position once it is consumed. */
interface Entry {
  logged: LoggedEvent
  /** Undefined if its bytes are no event. */
  received: Received | undefined
  /** It may have been consumed before the log was set back. */
  mayBeKnown: boolean
  after: Position
}

/** Reads one partition from its position, for as long as this replica holds it. */
export class PartitionReader {
  readonly #options: ConsumerOptions
  readonly #log: LogClient
  readonly #place: Place
  readonly #stream: string
  readonly #loop: Loop
  readonly #outage = new Outage()
  readonly #startedAt = performance.now()
  #position: Position
  #behind = 0
  #isDrained = false
  #feed: Feed | undefined
  /** Whether the log has more, which JetStream may be about to send. */
  #isBehindLog = false

  /** @param position as it was when the partition was leased */
  constructor(options: ConsumerOptions, log: LogClient, place: Place, position: Position) {
    this.#options = options
    this.#log = log
    this.#place = place
    this.#position = position
    this.#stream = streamOf(options.source)
    this.#loop = startLoop({
      work: (signal) => this.#read(signal),
      everyMs: retryMs,
      failed: (error) => options.log.error({ err: error, stream: this.#stream }, 'reading failed'),
      isOutage: isDatabaseOutage,
    })
  }

  /** How far it has come: all batches up to this number are consumed. */
  get number(): bigint {
    return this.#position.number
  }

  /** Whether more events wait than those being consumed. */
  get isBehind(): boolean {
    return this.#behind > behindFrom
  }

  /** Whether it has consumed what JetStream had when it began to read. */
  get isDrained(): boolean {
    return this.#isDrained
  }

  /** The producer’s log may have more than JetStream has sent, or an epoch that is not adopted. */
  look(): void {
    if (!this.#isBehindLog) this.#feed?.wake()
  }

  /** JetStream may have forgotten what it was to send. */
  reopen(): void {
    const feed = this.#feed
    this.#feed = undefined
    feed?.wake()
  }

  stop(): Promise<void> {
    return this.#loop.stop()
  }

  /** Reads from the position until JetStream fails to send what the log has. @returns milliseconds until the next try */
  async #read(signal: AbortSignal): Promise<number> {
    const { log, nats } = this.#options
    try {
      await nats.whenConnected(signal)
      if (!signal.aborted) await this.#readFromPosition(signal)
      return 0
    } catch (error) {
      if (!signal.aborted && performance.now() > this.#startedAt + startMs && this.#outage.isNews(error)) {
        log.warn({ ...this.#place, err: error }, 'reading again from the position')
      }
      return retryMs
    } finally {
      this.#behind = 0
    }
  }

  async #readFromPosition(signal: AbortSignal): Promise<void> {
    const { nats, service, source, sql } = this.#options
    const { partition } = this.#place
    const found = (await listPositions(sql, source)).find((row) => row.partition === partition)
    if (!found) throw new PartitionLost('the position is missing')
    this.#position = found
    const since = new Date(Math.min(found.moved_at.getTime(), Date.now()) - overlapMs)
    const feed = await openFeed(nats, { source, partition, service, since }).catch(async (error: unknown) => {
      if (isNotFound(error)) this.#isDrained = true
      await this.#fill(undefined, 'tail', signal)
      throw error
    })
    this.#feed = feed
    try {
      while (!signal.aborted && this.#feed === feed) {
        await this.#adoptEpochs()
        const announced = this.#log.view?.numbers[partition] ?? 0n
        this.#isBehindLog = announced > this.#position.number
        this.#isDrained ||= feed.isDrained
        const batches = await feed.next(mostTogether, this.#isBehindLog ? pollMs : foreverMs, signal)
        this.#behind = feed.behind
        await this.#consume(batches, signal)
        // The newest batch may have been on its way. If it has not arrived after this wait, JetStream does not send it.
        if (this.#isBehindLog && batches.length === 0) return await this.#fill(announced, 'tail', signal)
      }
    } finally {
      feed.close()
    }
  }

  /** Consumes what JetStream sent: repetitions are left out, and gaps filled from the log. */
  async #consume(batches: EventBatch[], signal: AbortSignal): Promise<void> {
    let run: EventBatch[] = []
    const next = () => this.#position.number + BigInt(run.length) + 1n
    const flush = async () => {
      await this.#take(entriesOf(run, this.#position), signal)
      run = []
    }
    for (const batch of batches) {
      if (batch.partition !== this.#place.partition) continue
      if (!this.#position.epochs.includes(batch.epoch)) {
        await flush()
        await this.#learnEpoch(batch)
      }
      if (this.#log.view ? !this.#log.has(batch) : !this.#position.epochs.includes(batch.epoch)) continue
      if (batch.number > next()) {
        await flush()
        await this.#fill(batch.number - 1n, 'gap', signal)
      }
      if (batch.number === next()) run.push(batch)
    }
    await flush()
  }

  /** Asks the producer for an epoch that the position does not have. The producer does not have that of a lost log. */
  async #learnEpoch({ epoch, number }: EventBatch): Promise<void> {
    try {
      await this.#readLog()
    } catch (error) {
      // At a first start the stream alone has to do. If it is wrong, the producer's first answer sets the position back.
      if (this.#log.view || this.#position.epochs.length > 0 || number !== 1n) throw error
      return this.#moveTo({ ...this.#position, epochs: [epoch] })
    }
    await this.#adoptEpochs()
  }

  /**
   * Takes the producer's epochs into account that the position does not have. If the log was set back, an epoch begins at
   * a number that was passed already: all from there on is new.
   *
   * @returns whether there were any
   */
  async #adoptEpochs(): Promise<boolean> {
    const { partition } = this.#place
    const position = this.#position
    const epochs = this.#log.view?.epochs ?? []
    const unknown = epochs.filter(({ epoch }) => !position.epochs.includes(epoch))
    if (unknown.length === 0) return false
    const first = unknown
      .map(({ firstNumbers }) => firstNumbers[partition]!)
      .reduce((a, b) => (a < b ? a : b))
    const isSetBack = first <= position.number
    if (isSetBack) {
      const { log } = this.#options
      log.warn(
        { stream: this.#stream, partition, from: position.number, first },
        'the event log was set back',
      )
    }
    await this.#moveTo({
      number: isSetBack ? first - 1n : position.number,
      done: first <= position.number + 1n ? 0 : position.done,
      epochs: epochs.map(({ epoch }) => epoch),
      set_back_by: position.set_back_by ?? (isSetBack ? unknown[0]!.epoch : null),
    })
    return true
  }

  /** Consumes the producer's log after the position, up to a number or, without one, to its end. */
  async #fill(upTo: bigint | undefined, cause: 'gap' | 'tail', signal: AbortSignal): Promise<void> {
    while ((upTo === undefined || this.#position.number < upTo) && !signal.aborted) {
      const { number } = this.#position
      const { batches, numbers } = await this.#readLog(number)
      if (await this.#adoptEpochs()) continue
      const run: EventBatch[] = []
      for (const batch of batches) {
        if (this.#log.has(batch) && batch.number === number + BigInt(run.length) + 1n) run.push(batch)
      }
      if (run.length > 0) {
        filled.inc({ stream: this.#stream, cause }, run.length)
        await this.#take(entriesOf(run, this.#position), signal)
        continue
      }
      const newest = numbers[this.#place.partition]!
      const next = batches[0]?.number ?? newest + 1n
      if (next > number + 1n) await this.#skipTo(next - 1n)
      else if (newest <= number) return
      else await pause(retryMs, signal)
    }
  }

  /** The log no longer has the next batches. */
  async #skipTo(number: bigint): Promise<void> {
    const { log } = this.#options
    const after = this.#position.number
    lost.inc({ stream: this.#stream }, Number(number - after))
    log.error(
      { ...this.#place, after, up_to: number },
      'events are lost: the log of their producer no longer has them',
    )
    await this.#moveTo({ ...this.#position, number, done: 0 })
  }

  #readLog(after?: bigint): ReturnType<LogClient['read']> {
    const { partition } = this.#place
    return this.#log.read(
      [{ ...this.#position, partition }],
      after === undefined ? undefined : { partition, after },
    )
  }

  /** Effects and position in one transaction. */
  async #take(entries: Entry[], signal: AbortSignal): Promise<void> {
    if (entries.length > mostTogether) return this.#takeInParts(entries, mostTogether, signal)
    const last = entries.at(-1)
    if (!last) return
    for (let tries = 1; !signal.aborted; tries += 1) {
      try {
        await this.#commit(entries, last.after)
        this.#outage.over()
        consumed.inc({ stream: this.#stream }, entries.length)
        this.#options.committed?.()
        return
      } catch (error) {
        if (error instanceof PartitionLost) throw error
        if (error instanceof BatchTooLarge && entries.length > error.mostTogether) {
          return this.#takeInParts(entries, error.mostTogether, signal)
        }
        const isTransient = this.#options.isTransient(error)
        if (!isTransient && entries.length > 1) return this.#takeInParts(entries, 1, signal)
        if (this.#outage.isNews(error)) {
          const which = entries.length === 1 ? logFieldsOf(last) : {}
          this.#options.log.warn(
            { err: error, stream: this.#stream, tries, number: last.after.number, ...which },
            'event could not be consumed, trying again',
          )
        }
        if (!isTransient && (tries >= poisonTries || !last.received)) return this.#park(last, error)
        await pause(Math.min(50 * 2 ** tries, 2_000), signal)
      }
    }
  }

  async #takeInParts(entries: Entry[], size: number, signal: AbortSignal): Promise<void> {
    for (let at = 0; at < entries.length && !signal.aborted; at += size) {
      await this.#take(entries.slice(at, at + size), signal)
    }
  }

  async #commit(entries: Entry[], to: Position): Promise<void> {
    const { handle, findKnown, sql } = this.#options
    const events = entries.map(({ received }) => {
      if (!received) throw new Error('this is no event')
      return received
    })
    const doubtful = events.filter((_, at) => entries[at]!.mayBeKnown)
    const afterCommit = await transaction(sql, async (tx) => {
      if (doubtful.length > 0 && findKnown) {
        await this.#move(tx, to)
        const known = await findKnown(tx, doubtful)
        const unknown = events.filter(({ event }) => !known.has(event.id))
        return unknown.length > 0 ? handle(tx, unknown) : undefined
      }
      // What the handler begins with is sent with the move, so that an event takes one round trip less.
      const [, outcome] = await allDone([this.#move(tx, to), handle(tx, events)])
      return outcome
    })
    this.#position = to
    afterCommit?.()
  }

  async #moveTo(to: Position): Promise<void> {
    await this.#move(this.#options.sql, to)
    this.#position = to
  }

  async #move(sql: Sql, to: Position): Promise<void> {
    if (!(await movePosition(sql, this.#place, this.#position, to, leaseMs)))
      throw new PartitionLost('another replica holds this partition')
  }

  /** Keeps an event that cannot be consumed, for an operator. What comes after it is consumed. */
  async #park(entry: Entry, error: unknown): Promise<void> {
    const { log, sql } = this.#options
    const { logged, after, received: known } = entry
    await transaction(sql, async (tx) => {
      await this.#move(tx, after)
      const { source, partition } = this.#place
      await insertDeadLetter(tx, {
        source,
        partition,
        number: after.number,
        payload: logged.event,
        eventId: known?.event.id ?? '',
        accountId: known?.event.accountId ?? '',
        traceParent: logged.traceParent || null,
        error: error instanceof Error ? error.message : String(error),
      })
    })
    this.#position = after
    parked.inc({ stream: this.#stream })
    log.error({ err: error, stream: this.#stream, ...logFieldsOf(entry) }, 'event moved to the dead letters')
  }
}

/** The events of consecutive batches that follow a position, without those that are done. */
function entriesOf(batches: EventBatch[], from: Position): Entry[] {
  return batches
    .flatMap(({ epoch, number, events }) =>
      events.map((logged, at) => ({
        logged,
        received: received(logged),
        mayBeKnown: logged.precedesEpoch && isSetBackAt(epoch, from),
        after: {
          ...from,
          ...(at === events.length - 1 ? { number, done: 0 } : { number: number - 1n, done: at + 1 }),
        },
      })),
    )
    .slice(from.done)
}

/** Whether the log was set back at this epoch or before. */
function isSetBackAt(epoch: string, { epochs, set_back_by: first }: Position): boolean {
  return first !== null && epochs.indexOf(epoch) >= epochs.indexOf(first)
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
 * Like `Promise.all`, but waits until all have ended, and throws the first reason in their order: nothing works on in a
 * transaction that is rolled back.
 */
async function allDone<T extends readonly unknown[] | []>(promises: T) {
  await Promise.allSettled(promises)
  return Promise.all(promises)
}
