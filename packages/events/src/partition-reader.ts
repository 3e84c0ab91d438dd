import { isDatabaseOutage } from '@licensing/database/problems'
import { Outage } from '@licensing/database/outage'
import { startLoop } from '@licensing/process/loop'
import type { Loop } from '@licensing/process/loop'
import type { EventBatch } from '@licensing/proto/event-log'
import { streamOf } from '@licensing/proto/event-streams'
import { NatsError } from 'nats'
import { Counter } from 'prom-client'
import { currentMs } from '@licensing/process/clock'
import type { ConsumerOptions } from './consumer-options.ts'
import { isAfter, isForgotten } from './consumer-queries.ts'
import type { BatchPlace, Place, Position } from './consumer-queries.ts'
import { openFeed } from './feed.ts'
import type { Feed } from './feed.ts'
import type { LogAnswer, LogClient } from './log-client.ts'
import { startMs } from './partitions.ts'
import { PartitionLost, PartitionWriter } from './partition-writer.ts'
import { isNotFound } from './streams.ts'

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
  help: 'Batches that the log of their producer no longer had: this service was stopped for too long, or restored from an old backup',
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
  /** The newest batch of the log, two seconds ago. */
  #announced: BatchPlace | undefined
  /** Whether the log may have batches that JetStream has not sent, or a later epoch than its messages. */
  #isLogAhead = true
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

  /** Whether it has consumed the messages that JetStream had when it began to read. */
  get isDrained(): boolean {
    return this.#isDrained
  }

  /** Called every two seconds with the producer's answer. The batches of the previous answer should have arrived by now. */
  announce(newest: BatchPlace): void {
    const isMissing = this.#announced !== undefined && isAfter(this.#announced, this.position)
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
    }
  }

  async #readFromPosition(signal: AbortSignal): Promise<void> {
    const { nats, service, source } = this.#options
    const { partition } = this.#place
    const movedAt = await this.#writer.reload()
    this.#outage.over()
    const since = new Date(Math.min(movedAt.getTime(), currentMs()) - overlapMs)
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
      if (this.#isLogAhead) await this.#readLogIfAnswered(signal)
      if (feed.waiting === 0) this.#isDrained = true
      this.#isWaiting = true
      for await (const { batches, waiting } of feed.arrivals) {
        this.#isWaiting = false
        await this.#consume(batches, signal)
        if (waiting === 0) this.#isDrained = true
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

  /**
   * Takes a message of JetStream only if it is the next batch of the same epoch. If it follows later, reads the log instead.
   * The rest are repetitions, or of a time that the log has lost.
   */
  async #consume(batches: EventBatch[], signal: AbortSignal): Promise<void> {
    let run: EventBatch[] = []
    for (const batch of batches) {
      if (batch.partition !== this.#place.partition) continue
      const passed = run.at(-1) ?? this.position
      if (!isAfter(batch, passed)) continue
      if (batch.epoch === passed.epoch && batch.number === passed.number + 1n) {
        run.push(batch)
        continue
      }
      await this.#writer.consume(run, signal)
      run = []
      if (isAfter(batch, this.position)) await this.#readLog('gap', signal)
    }
    await this.#writer.consume(run, signal)
  }

  /** Without an answer of the producer, the reader continues with the messages of JetStream. */
  async #readLogIfAnswered(signal: AbortSignal): Promise<void> {
    await this.#readLog('tail', signal).catch((error: unknown) => {
      if (!(error instanceof NatsError)) throw error
    })
  }

  /** Consumes the producer's log after the position, to its end. */
  async #readLog(cause: 'gap' | 'tail', signal: AbortSignal): Promise<void> {
    const { partition } = this.#place
    while (!signal.aborted) {
      const newest = await this.#log.read([{ ...this.position, partition }], partition)
      const { batches, epoch, numbers } = newest
      if (isForgotten(newest, { ...this.position, partition })) {
        throw new PartitionLost('the log was restored to a time before it had this partition')
      }
      const end = { epoch, number: numbers[partition] ?? 0n }
      // In a log the numbers continue from epoch to epoch.
      const gap = batches.findIndex((batch, at) => at > 0 && batch.number !== batches[at - 1]!.number + 1n)
      const run = gap === -1 ? batches : batches.slice(0, gap)
      this.#reportLost(run[0] ?? { ...end, number: end.number + 1n }, newest)
      filled.inc({ stream: this.#stream, cause }, run.length)
      await this.#writer.consume(run, signal, newest)
      // Messages of an epoch that the log has lost are then not taken.
      if (batches.length === 0 && isAfter(end, this.position)) {
        await this.#writer.moveTo({ ...end, done: 0 }, newest)
      }
      if (!isAfter(end, this.position)) break
    }
    this.#isLogAhead = false
  }

  /** Counts the batches before `first`, the next batch of the log, that the log no longer has. */
  #reportLost(first: BatchPlace, { epoch, firstNumbers }: Pick<LogAnswer, 'epoch' | 'firstNumbers'>): void {
    const { number: after } = this.position
    const begins = firstNumbers[this.#place.partition] ?? 1n
    const isOtherEpoch = first.epoch === epoch && this.position.epoch !== epoch
    const expected = isOtherEpoch && begins <= after ? begins : after + 1n
    if (first.number <= expected) return
    lost.inc({ stream: this.#stream }, Number(first.number - expected))
    this.#options.log.error(
      { ...this.#place, after, up_to: first.number - 1n },
      'events are lost: the log of their producer no longer has them',
    )
  }
}
