import { Outage } from '@licensing/database/outage'
import { isDatabaseOutage } from '@licensing/database/problems'
import { startLoop } from '@licensing/process/loop'
import type { Loop } from '@licensing/process/loop'
import type { JsMsg } from 'nats'
import { Counter } from 'prom-client'
import { Backlog } from './backlog.ts'
import type { ConsumerOptions } from './consumer-options.ts'
import { findPosition } from './consumer-queries.ts'
import { Hole, Interrupted, openFeed } from './feed.ts'
import type { Feed } from './feed.ts'
import { PartitionWriter } from './partition-writer.ts'
import type { Taken } from './partition-writer.ts'
import { decode } from './received.ts'
import { streamOf } from '@licensing/proto/event-streams'
import { isNotFound } from './streams.ts'

const batchSize = 500
// An account with more than this in a batch has it consumed after the events of all others.
const mostWithOthers = 50
// What waits for the transaction at work; more waits in the stream.
const mostWaiting = 2_000
const retryMs = 500

const holes = new Counter({
  name: 'events_holes_total',
  help: 'Times that deliveries were lost on their way from JetStream and read again from the position',
  labelNames: ['stream'],
})

/** Reads one partition from where its position stands, for as long as this replica holds it. */
export class PartitionReader {
  readonly #options: ConsumerOptions
  readonly #stream: string
  readonly #partition: number
  readonly #member: string
  readonly #loop: Loop
  readonly #outage = new Outage()
  #reading: { feed: Feed; writer: PartitionWriter } | undefined
  readonly #backlog = new Backlog()

  constructor(options: ConsumerOptions, partition: number, member: string) {
    this.#options = options
    this.#stream = streamOf(options.source)
    this.#partition = partition
    this.#member = member
    this.#loop = startLoop({
      work: (signal) => this.#read(signal),
      everyMs: retryMs,
      failed: (error) => options.log.error({ err: error, stream: this.#stream }, 'reading failed'),
      isOutage: isDatabaseOutage,
    })
  }

  /** Whether more events wait than those being consumed, or did so a moment ago. */
  get isBehind(): boolean {
    this.#noteBehind()
    return this.#backlog.isBehind(performance.now())
  }

  stop(): Promise<void> {
    return this.#loop.stop()
  }

  #noteBehind(): void {
    const { feed, writer } = this.#reading ?? {}
    this.#backlog.note((feed?.behind ?? 0) + (writer?.waiting ?? 0), performance.now())
  }

  /** @returns milliseconds until it is read again, after a failure or an interruption */
  async #read(signal: AbortSignal): Promise<number> {
    const { log, nats } = this.#options
    const place = { stream: this.#stream, partition: this.#partition }
    try {
      await nats.whenConnected(signal)
      if (!signal.aborted) await this.#readFromPosition(signal)
      return 0
    } catch (error) {
      if (signal.aborted) return 0
      if (error instanceof Hole) {
        holes.inc({ stream: this.#stream })
        log.warn({ ...place, hole: error.message }, 'deliveries were lost, reading again from the position')
        return 0
      }
      if (error instanceof Interrupted) {
        log.info({ ...place, reason: error.message }, 'interrupted, reading again from the position')
      } else if (this.#outage.isNews(error)) {
        log.warn({ ...place, err: error }, 'reading again from the position')
      }
      return retryMs
    }
  }

  async #readFromPosition(signal: AbortSignal): Promise<void> {
    const { nats, service, source, sql } = this.#options
    const manager = await nats.connection.jetstreamManager()
    const { created } = await manager.streams.info(this.#stream)
    const position = await findPosition(sql, this.#stream, this.#partition, created)
    // An earlier release had one durable consumer a partition.
    await manager.consumers.delete(this.#stream, `${service}-${this.#partition}`).catch((error: unknown) => {
      if (!isNotFound(error)) throw error
    })
    const feed = await openFeed({
      nats,
      source,
      partition: this.#partition,
      service,
      after: position,
      signal,
    })
    const writer = new PartitionWriter(
      this.#options,
      { partition: this.#partition, member: this.#member, position, outage: this.#outage, signal },
      () => feed.close(),
    )
    this.#reading = { feed, writer }
    try {
      while (!signal.aborted) {
        const batch = await feed.next(batchSize)
        if (batch.length > 0) await this.#pass(batch.map(read), writer)
      }
    } catch (error) {
      writer.throwProblem()
      throw error
    } finally {
      this.#reading = undefined
      feed.close()
      await writer.stop()
    }
  }

  /** Events of accounts that have few of them do not wait for those of one that has many. */
  async #pass(batch: Taken[], writer: PartitionWriter): Promise<void> {
    const end = BigInt(batch.at(-1)!.message.seq)
    const { few, others } = byNumber(batch, writer)
    if (writer.isIdle && others.length === 0) {
      writer.add(batch, end)
      return writer.untilIdle()
    }
    const areFirst = few.length > 0 && (await writer.consumeFirst(few.map(({ received }) => received!)))
    writer.add(areFirst ? others : batch, end)
    this.#noteBehind()
    await writer.untilWaiting(mostWaiting)
  }
}

function read(message: JsMsg): Taken {
  try {
    return { message, received: decode(message) }
  } catch {
    return { message, received: undefined }
  }
}

/** Those of accounts with a few events that are owed none, and all others, in order. */
function byNumber(batch: Taken[], writer: PartitionWriter): { few: Taken[]; others: Taken[] } {
  const counts = new Map<string, number>()
  for (const { received } of batch) {
    if (received) counts.set(received.event.accountId, (counts.get(received.event.accountId) ?? 0) + 1)
  }
  const isOfFew = ({ received }: Taken) =>
    received !== undefined &&
    counts.get(received.event.accountId)! <= mostWithOthers &&
    !writer.isOwed(received.event.accountId)
  return { few: batch.filter(isOfFew), others: batch.filter((each) => !isOfFew(each)) }
}
