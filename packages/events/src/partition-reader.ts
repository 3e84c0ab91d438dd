import { isDatabaseOutage } from '@licensing/database/problems'
import { Outage } from '@licensing/database/outage'
import { pause, startLoop } from '@licensing/process/loop'
import type { Loop } from '@licensing/process/loop'
import type { EventBatch } from '@licensing/proto/event-log'
import { streamOf } from '@licensing/proto/event-streams'
import { Counter } from 'prom-client'
import type { ConsumerOptions } from './consumer-options.ts'
import type { Place, Position } from './consumer-queries.ts'
import { openFeed } from './feed.ts'
import type { Feed } from './feed.ts'
import type { LogClient } from './log-client.ts'
import { startMs } from './partitions.ts'
import { maxBatchSize, PartitionLost, PartitionWriter } from './partition-writer.ts'
import { isNotFound } from './streams.ts'

// A reader is behind if more events wait than it consumes within a moment.
const behindFrom = 250
const retryMs = 500
// The clocks of NATS and PostgreSQL may differ. A batch that is read twice is recognised by its number.
const overlapMs = 60_000

const filled = new Counter({
  name: 'events_filled_total',
  help: 'Batches read from the log of their producer, by cause: gap (JetStream skipped a number) or tail (JetStream sent no more)',
  labelNames: ['stream', 'cause'],
})
const lost = new Counter({
  name: 'event_batches_lost_total',
  help: 'Batches that the log of their producer no longer had: this service was stopped or set back for too long',
  labelNames: ['stream'],
})

/**
 * Reads one partition from its position for as long as this replica leases it: batch after batch from JetStream, and from the
 * producer's log if JetStream does not send the next number.
 */
export class PartitionReader {
  readonly #options: ConsumerOptions
  readonly #log: LogClient
  readonly #place: Place
  readonly #stream: string
  readonly #writer: PartitionWriter
  readonly #loop: Loop
  readonly #outage = new Outage()
  readonly #startedAt = performance.now()
  #feed: Feed | undefined
  /** Whether all batches that have arrived are consumed. */
  #isWaiting = false
  /** The newest number of the log, two seconds ago. */
  #announced = 0n
  /** Whether the log has batches that JetStream has not sent. */
  #isLogAhead = false
  #behind = 0
  #isDrained = false

  /** @param position as it was when the partition was leased */
  constructor(options: ConsumerOptions, log: LogClient, place: Place, position: Position) {
    this.#options = options
    this.#log = log
    this.#place = place
    this.#stream = streamOf(options.source)
    this.#writer = new PartitionWriter(options, place, position)
    this.#loop = startLoop({
      work: (signal) => this.#read(signal),
      everyMs: retryMs,
      failed: (error) => options.log.error({ err: error, stream: this.#stream }, 'reading failed'),
      isOutage: isDatabaseOutage,
    })
  }

  get position(): Position {
    return this.#writer.position
  }

  /** Whether more events wait than are being consumed. */
  get isBehind(): boolean {
    return this.#behind > behindFrom
  }

  /** Whether it has consumed the messages that JetStream had when it began to read. */
  get isDrained(): boolean {
    return this.#isDrained
  }

  /** Called every two seconds with the producer's answer. The batches of the previous answer should have arrived by now. */
  announce(newest: bigint): void {
    const isMissing = this.position.number < this.#announced || this.#unknownEpochs().length > 0
    this.#announced = newest
    if (!isMissing || !this.#isWaiting) return
    this.#isLogAhead = true
    this.reopen()
  }

  /** Opens the feed again: JetStream may have lost its consumer. */
  reopen(): void {
    this.#feed?.close()
  }

  stop(): Promise<void> {
    return this.#loop.stop()
  }

  /** Reads until the feed is closed. @returns milliseconds until the next try */
  async #read(signal: AbortSignal): Promise<number> {
    const { log, nats } = this.#options
    try {
      await nats.whenConnected(signal)
      if (!signal.aborted) await this.#readFromPosition(signal)
      return 0
    } catch (error) {
      const isExpected =
        signal.aborted || error instanceof PartitionLost || performance.now() < this.#startedAt + startMs
      if (!isExpected && this.#outage.isNews(error)) {
        log.warn({ ...this.#place, err: error }, 'reading again from the position')
      }
      return retryMs
    } finally {
      this.#behind = 0
    }
  }

  async #readFromPosition(signal: AbortSignal): Promise<void> {
    const { nats, service, source } = this.#options
    const { partition } = this.#place
    const movedAt = await this.#writer.reload()
    this.#outage.over()
    const since = new Date(Math.min(movedAt.getTime(), Date.now()) - overlapMs)
    const feed = await openFeed(nats, { source, partition, service, since }).catch(async (error: unknown) => {
      if (isNotFound(error)) this.#isDrained = true
      await this.#readLog('tail', signal)
      throw error
    })
    if (signal.aborted) return feed.close()
    const close = () => feed.close()
    signal.addEventListener('abort', close, { once: true })
    this.#feed = feed
    try {
      if (this.#isLogAhead) await this.#readLog('tail', signal)
      if (feed.waiting === 0) this.#isDrained = true
      this.#isWaiting = true
      for await (const { batches, waiting } of feed.arrivals) {
        this.#isWaiting = false
        const events = batches.reduce((sum, batch) => sum + batch.events.length, 0)
        // JetStream says how many batches wait, but not how many events.
        const waitingEvents = waiting * (events / Math.max(1, batches.length))
        this.#behind = waitingEvents + Math.max(0, events - maxBatchSize)
        await this.#consume(batches, signal)
        if (waiting === 0) this.#isDrained = true
        this.#behind = waitingEvents
        this.#isWaiting = true
        if (signal.aborted) return
      }
    } finally {
      this.#isWaiting = false
      this.#feed = undefined
      signal.removeEventListener('abort', close)
      feed.close()
    }
  }

  /** Consumes the messages of JetStream without repetitions. If a batch is not the next one, reads the log. */
  async #consume(batches: EventBatch[], signal: AbortSignal): Promise<void> {
    let run: EventBatch[] = []
    for (const batch of batches) {
      if (batch.partition !== this.#place.partition) continue
      const next = this.position.number + BigInt(run.length) + 1n
      const isKnown = this.#isKnown(batch.epoch)
      if (isKnown && (batch.number < next || this.#isSuperseded(batch))) continue
      if (isKnown && batch.number === next) {
        run.push(batch)
      } else {
        await this.#writer.consume(run, signal)
        run = (await this.#fillBefore(batch, signal)) ? [batch] : []
      }
    }
    await this.#writer.consume(run, signal)
  }

  /**
   * Reads the log, because a batch is not the next one. If the producer does not answer at this service's first start, the
   * reader relies on the stream alone. If that skips events, the producer's first answer sets the position back.
   *
   * @returns whether to consume the batch as the first one
   */
  async #fillBefore({ epoch, number }: EventBatch, signal: AbortSignal): Promise<boolean> {
    try {
      await this.#readLog('gap', signal)
      return false
    } catch (error) {
      if (this.#log.view || this.position.epochs.length > 0 || number !== 1n) throw error
      await this.#writer.moveTo({ ...this.position, epochs: [epoch] })
      return true
    }
  }

  /** Consumes the producer's log after the position, to its end. */
  async #readLog(cause: 'gap' | 'tail', signal: AbortSignal): Promise<void> {
    this.#isLogAhead = false
    const { partition } = this.#place
    while (!signal.aborted) {
      const { number } = this.position
      const { batches, numbers } = await this.#log.read([{ ...this.position, partition }], {
        partition,
        after: number,
      })
      if (await this.#adoptEpochs()) continue
      const newest = numbers[partition]!
      const oldest = batches[0]?.number ?? newest + 1n
      const run = batches.filter(
        (batch, at) =>
          batch.number === number + BigInt(at) + 1n && this.position.epochs.includes(batch.epoch),
      )
      if (oldest > number + 1n) {
        await this.#skipTo(oldest - 1n)
      } else if (run.length > 0) {
        filled.inc({ stream: this.#stream, cause }, run.length)
        await this.#writer.consume(run, signal)
      } else if (batches.length > 0) {
        // An epoch began between the producer's two readings.
        await pause(retryMs, signal)
      }
      if (this.position.number >= newest) return
    }
  }

  /** Skips batches that the log no longer has. */
  async #skipTo(number: bigint): Promise<void> {
    const { log } = this.#options
    const after = this.position.number
    lost.inc({ stream: this.#stream }, Number(number - after))
    log.error(
      { ...this.#place, after, up_to: number },
      'events are lost: the log of their producer no longer has them',
    )
    await this.#writer.moveTo({ ...this.position, number, done: 0 })
  }

  #unknownEpochs() {
    return (this.#log.view?.epochs ?? []).filter(({ epoch }) => !this.position.epochs.includes(epoch))
  }

  /**
   * Whether the reader knows which numbers of this epoch are valid. A later epoch may have assigned numbers of an earlier one
   * again. Only the producer's answer contains the number at which an epoch begins, and the reader starts without an answer.
   */
  #isKnown(epoch: string): boolean {
    const { epochs } = this.position
    const newest = epochs.at(-1)
    const isCurrent = this.#log.view?.epochs.at(-1)?.epoch === newest
    return epoch === newest || (isCurrent && epochs.includes(epoch))
  }

  /** Whether a later epoch has given the number of a batch again. */
  #isSuperseded({ epoch, number }: EventBatch): boolean {
    const epochs = this.#log.view?.epochs ?? []
    const at = epochs.findIndex((known) => known.epoch === epoch)
    return epochs.slice(at + 1).some(({ firstNumbers }) => number >= firstNumbers[this.#place.partition]!)
  }

  /**
   * Adds the producer's epochs that the position does not have. If the log was set back, an epoch begins at a number that was
   * already passed, and all batches from there on are new.
   *
   * @returns whether there were new epochs
   */
  async #adoptEpochs(): Promise<boolean> {
    const { partition } = this.#place
    const unknown = this.#unknownEpochs()
    if (unknown.length === 0) return false
    const { number, done, is_set_back: wasSetBack } = this.position
    const first = unknown
      .map(({ firstNumbers }) => firstNumbers[partition]!)
      .reduce((a, b) => (a < b ? a : b))
    const isSetBack = first <= number
    if (isSetBack) {
      const { log } = this.#options
      log.warn({ stream: this.#stream, partition, from: number, first }, 'the event log was set back')
    }
    await this.#writer.moveTo({
      number: isSetBack ? first - 1n : number,
      done: first <= number + 1n ? 0 : done,
      epochs: this.#log.view!.epochs.map(({ epoch }) => epoch),
      is_set_back: wasSetBack || isSetBack,
    })
    return true
  }
}
