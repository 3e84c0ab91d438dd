import { fromBinary } from '@bufbuild/protobuf'
import { transaction } from '@licensing/database/transaction'
import { EventSchema } from '@licensing/proto/events'
import { AckPolicy, DeliverPolicy, nanos } from 'nats'
import type { ConsumerMessages, JsMsg } from 'nats'
import { Counter } from 'prom-client'
import type { ConsumerOptions, Received } from './consumer-options.ts'
import { leaseMs } from './lease.ts'
import { movePosition, readPosition, recordConsumed } from './consumer-queries.ts'
import { pause } from './pause.ts'
import { isNotFound, subjectOf } from './streams.ts'

const batchSize = 500
const bufferSize = 1_000
const poisonTries = 5

const consumed = new Counter({
  name: 'events_consumed_total',
  help: 'Events taken in',
  labelNames: ['stream'],
})
const parked = new Counter({
  name: 'events_dead_lettered_total',
  help: 'Events that could not be taken in and went to the dead-letter stream: look at them',
  labelNames: ['stream'],
})

class PartitionLost extends Error {}

/** Reads one partition from where its position stands, for as long as this replica holds it. */
export class PartitionReader {
  readonly #options: ConsumerOptions
  readonly #stream: string
  readonly #partition: number
  readonly #member: string
  readonly #stopped = new AbortController()
  readonly #running: Promise<void>
  #buffer: JsMsg[] = []
  #arrived: () => void = () => {}

  constructor(options: ConsumerOptions, stream: string, partition: number, member: string) {
    this.#options = options
    this.#stream = stream
    this.#partition = partition
    this.#member = member
    this.#running = this.#run()
  }

  async stop(): Promise<void> {
    this.#stopped.abort()
    this.#arrived()
    await this.#running
  }

  async #run(): Promise<void> {
    const { signal } = this.#stopped
    while (!signal.aborted) {
      try {
        await this.#readFromPosition()
      } catch (error) {
        if (signal.aborted) return
        const { log } = this.#options
        log.warn(
          { err: error, stream: this.#stream, partition: this.#partition },
          'reading again from the position',
        )
        await pause(500, signal)
      }
    }
  }

  /**
   * The durable consumer is made anew at the position that PostgreSQL has: after a change of holder JetStream would
   * otherwise give out later messages before the ones the former holder had not acknowledged.
   */
  async #readFromPosition(): Promise<void> {
    const { nats, service, source, sql } = this.#options
    await nats.whenConnected(this.#stopped.signal)
    if (this.#stopped.signal.aborted) return
    const jsm = await nats.connection.jetstreamManager()
    const name = `${service}-${this.#partition}`
    const info = await jsm.streams.info(this.#stream)
    let position = await readPosition(sql, this.#stream, this.#partition, info.created)
    await jsm.consumers.delete(this.#stream, name).catch((error: unknown) => {
      if (!isNotFound(error)) throw error
    })
    await jsm.consumers.add(this.#stream, {
      durable_name: name,
      filter_subject: subjectOf(source, this.#partition, '>'),
      ack_policy: AckPolicy.All,
      ack_wait: nanos(60_000),
      max_ack_pending: bufferSize * 2,
      deliver_policy: DeliverPolicy.StartSequence,
      opt_start_seq: Number(position) + 1,
    })
    this.#buffer = []
    const consumer = await nats.connection.jetstream().consumers.get(this.#stream, name)
    const messages = await consumer.consume({
      max_messages: bufferSize,
      callback: (message) => {
        this.#buffer.push(message)
        this.#arrived()
      },
    })
    const watched = this.#watch(messages)
    try {
      while (!this.#stopped.signal.aborted) {
        const batch = await this.#next(position, watched)
        if (batch.length > 0) position = await this.#take(batch, position)
      }
    } finally {
      await messages.close()
    }
  }

  /** Turns a consumer that JetStream gave up into a rejection, which reads again from the position. */
  #watch(messages: ConsumerMessages): { problem: Error | undefined } {
    const watched: { problem: Error | undefined } = { problem: undefined }
    const fail = (problem: Error) => {
      watched.problem ??= problem
      this.#arrived()
    }
    void messages
      .closed()
      .then((error) => fail(error instanceof Error ? error : new Error('consumer was closed')))
    const follow = async () => {
      for await (const status of await messages.status()) {
        if (['consumer_deleted', 'consumer_not_found', 'stream_not_found'].includes(status.type)) {
          fail(new PartitionLost(status.type))
        }
      }
    }
    follow().catch(fail)
    return watched
  }

  async #next(position: bigint, watched: { problem: Error | undefined }): Promise<JsMsg[]> {
    if (this.#buffer.length === 0 && !watched.problem && !this.#stopped.signal.aborted) {
      await new Promise<void>((resolve) => {
        this.#arrived = resolve
      })
    }
    if (watched.problem) throw watched.problem
    return this.#buffer.splice(0, batchSize).filter((message) => BigInt(message.seq) > position)
  }

  /** Effect, record of the ids and position in one transaction; acknowledged afterwards. @returns the new position */
  async #take(batch: JsMsg[], position: bigint): Promise<bigint> {
    const last = batch.at(-1)!
    for (let tries = 1; !this.#stopped.signal.aborted; tries += 1) {
      try {
        await this.#commit(batch, position)
        last.ack()
        consumed.inc({ stream: this.#stream }, batch.length)
        this.#options.committed?.()
        return BigInt(last.seq)
      } catch (error) {
        if (error instanceof PartitionLost) throw error
        const transient = this.#options.isTransient(error)
        if (!transient && batch.length > 1) return await this.#takeOneByOne(batch, position)
        this.#options.log.warn(
          { err: error, stream: this.#stream, tries, seq: last.seq },
          'event not taken in',
        )
        if (!transient && tries >= poisonTries) return await this.#park(last, position, error)
        await pause(Math.min(50 * 2 ** tries, 2_000), this.#stopped.signal)
      }
    }
    return position
  }

  async #takeOneByOne(batch: JsMsg[], position: bigint): Promise<bigint> {
    let reached = position
    for (const message of batch) reached = await this.#take([message], reached)
    return reached
  }

  async #commit(batch: JsMsg[], from: bigint): Promise<void> {
    const events = batch.map(decode)
    const afterCommit = await transaction(this.#options.sql, async (tx) => {
      await this.#move(tx, from, BigInt(batch.at(-1)!.seq))
      const fresh = await recordConsumed(
        tx,
        events.map(({ event }) => event.id),
      )
      const unseen = events.filter(({ event }) => fresh.delete(event.id))
      return unseen.length > 0 ? await this.#options.handle(tx, unseen) : undefined
    })
    afterCommit?.()
  }

  async #move(tx: Parameters<typeof movePosition>[0], from: bigint, to: bigint): Promise<void> {
    const [stream, partition, member] = [this.#stream, this.#partition, this.#member]
    if (!(await movePosition(tx, { stream, partition, member, from, to, leaseMs })))
      throw new PartitionLost('another replica holds this partition')
  }

  /** A poison message: kept in the dead-letter stream, counted, logged; what comes after it flows on. */
  async #park(message: JsMsg, position: bigint, error: unknown): Promise<bigint> {
    const { log, nats, service, sql } = this.#options
    // Without the message's own headers: they name what came before it in its stream.
    await nats.connection.jetstream().publish(`dead-letters.${service}.${message.subject}`, message.data, {
      msgID: `${service}:${this.#stream}:${message.seq}`,
    })
    await this.#move(sql, position, BigInt(message.seq))
    message.ack()
    parked.inc({ stream: this.#stream })
    log.error({ err: error, stream: this.#stream, seq: message.seq }, 'event moved to the dead-letter stream')
    return BigInt(message.seq)
  }
}

function decode(message: JsMsg): Received {
  return {
    event: fromBinary(EventSchema, message.data),
    traceParent: message.headers?.get('traceparent') || undefined,
  }
}
