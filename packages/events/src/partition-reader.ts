import type { Transaction } from '@licensing/database/connect'
import { Outage } from '@licensing/database/outage'
import { isDatabaseOutage } from '@licensing/database/problems'
import { transaction } from '@licensing/database/transaction'
import { pause, startLoop } from '@licensing/process/loop'
import type { Loop } from '@licensing/process/loop'
import type { JsMsg } from 'nats'
import { Counter } from 'prom-client'
import { BatchTooLarge } from './consumer-options.ts'
import type { ConsumerOptions, Received } from './consumer-options.ts'
import {
  findPosition,
  isConsumedBefore,
  movePosition,
  recordConsumed,
  recordDeadLettered,
  recordNew,
} from './consumer-queries.ts'
import { Hole, Interrupted, openFeed } from './feed.ts'
import { leaseMs } from './partitions.ts'
import { decode, eventIdOf, logFieldsOf } from './received.ts'
import { streamOf } from '@licensing/proto/event-streams'
import { isNotFound } from './streams.ts'

const batchSize = 500
// An account with more than this in a batch has it consumed after the events of all others.
const mostWithOthers = 50
// Reading is behind when more than a few moments' events wait.
const behindFrom = 250
const poisonTries = 5
const retryMs = 500

const consumed = new Counter({
  name: 'events_consumed_total',
  help: 'Events consumed',
  labelNames: ['stream'],
})
const parked = new Counter({
  name: 'events_dead_lettered_total',
  help: 'Events that could not be consumed and went to the dead-letter stream: look at them',
  labelNames: ['stream'],
})
const holes = new Counter({
  name: 'events_holes_total',
  help: 'Times that deliveries were lost on their way from JetStream and read again from the position',
  labelNames: ['stream'],
})

class PartitionLost extends Error {}

/** Reads one partition from where its position stands, for as long as this replica holds it. */
export class PartitionReader {
  readonly #options: ConsumerOptions
  readonly #stream: string
  readonly #partition: number
  readonly #member: string
  readonly #loop: Loop
  readonly #outage = new Outage()
  #behind = 0

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

  /** Whether more events wait in the stream than those being consumed. */
  get isBehind(): boolean {
    return this.#behind > behindFrom
  }

  stop(): Promise<void> {
    return this.#loop.stop()
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
    let position = await findPosition(sql, this.#stream, this.#partition, created)
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
    try {
      while (!signal.aborted) {
        const batch = await feed.next(batchSize)
        this.#behind = feed.behind
        if (batch.length > 0) position = await this.#take(batch, position, signal)
      }
    } finally {
      this.#behind = 0
      feed.close()
    }
  }

  /** Effect, record of the ids and position in one transaction. @returns the new position */
  async #take(batch: JsMsg[], position: bigint, signal: AbortSignal): Promise<bigint> {
    const last = batch.at(-1)!
    for (let tries = 1; !signal.aborted; tries += 1) {
      try {
        await this.#commit(batch, position)
        this.#outage.over()
        consumed.inc({ stream: this.#stream }, batch.length)
        this.#options.committed?.()
        return BigInt(last.seq)
      } catch (error) {
        if (error instanceof PartitionLost) throw error
        if (error instanceof BatchTooLarge && batch.length > error.mostTogether) {
          return await this.#takeInParts(batch, error.mostTogether, position, signal)
        }
        const transient = this.#options.isTransient(error)
        if (!transient && batch.length > 1) return await this.#takeInParts(batch, 1, position, signal)
        if (this.#outage.isNews(error)) {
          const which = batch.length === 1 ? logFieldsOf(last) : {}
          this.#options.log.warn(
            { err: error, stream: this.#stream, tries, seq: last.seq, ...which },
            'event could not be consumed, trying again',
          )
        }
        if (!transient && tries >= poisonTries) return await this.#park(last, position, error)
        await pause(Math.min(50 * 2 ** tries, 2_000), signal)
      }
    }
    return position
  }

  async #takeInParts(batch: JsMsg[], size: number, position: bigint, signal: AbortSignal): Promise<bigint> {
    let reached = position
    for (let from = 0; from < batch.length && !signal.aborted; from += size) {
      reached = await this.#take(batch.slice(from, from + size), reached, signal)
    }
    return reached
  }

  /**
   * Events of accounts that have few of them are committed first, so that they do not wait for those of one that has
   * many. The position stays meanwhile: what was committed is known by its id if the batch is read again.
   */
  async #commit(batch: JsMsg[], from: bigint): Promise<void> {
    const to = BigInt(batch.at(-1)!.seq)
    const { few, many } = byNumber(batch.map(decode))
    if (few.length > 0 && many.length > 0) await this.#commitSome(few, from, from)
    await this.#commitSome(many.length > 0 ? many : few, from, to)
  }

  async #commitSome(events: Received[], from: bigint, to: bigint): Promise<void> {
    const { handle, sql } = this.#options
    const ids = events.map(({ event }) => event.id)
    const consumeNew = async (tx: Transaction) => {
      // What the handler begins with is sent with these, so that an event takes one round trip less.
      const [, , afterCommit] = await allDone([
        this.#move(tx, from, to),
        recordNew(tx, ids),
        handle(tx, events),
      ])
      return afterCommit
    }
    const consumeUnseen = async (tx: Transaction) => {
      const [, fresh] = await allDone([this.#move(tx, from, to), recordConsumed(tx, ids)])
      const unseen = events.filter(({ event }) => fresh.delete(event.id))
      return unseen.length > 0 ? handle(tx, unseen) : undefined
    }
    const afterCommit = await transaction(sql, consumeNew).catch((error: unknown) => {
      if (!isConsumedBefore(error)) throw error
      return transaction(sql, consumeUnseen)
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
    await transaction(sql, async (tx) => {
      await this.#move(tx, position, BigInt(message.seq))
      const eventId = eventIdOf(message)
      if (eventId) await recordDeadLettered(tx, eventId)
    })
    parked.inc({ stream: this.#stream })
    const which = { stream: this.#stream, seq: message.seq, ...logFieldsOf(message) }
    log.error({ err: error, ...which }, 'event moved to the dead-letter stream')
    return BigInt(message.seq)
  }
}

/**
 * Like `Promise.all`, but when all have ended, with the first reason in their order: nothing works on in a transaction that
 * is rolled back.
 */
async function allDone<T extends readonly unknown[] | []>(promises: T) {
  await Promise.allSettled(promises)
  return Promise.all(promises)
}

/** Those of accounts with a few events, and those of accounts with many; each account's in one of them, in order. */
function byNumber(events: Received[]): { few: Received[]; many: Received[] } {
  const counts = new Map<string, number>()
  for (const { event } of events) counts.set(event.accountId, (counts.get(event.accountId) ?? 0) + 1)
  const hasMany = ({ event }: Received) => counts.get(event.accountId)! > mostWithOthers
  return { few: events.filter((each) => !hasMany(each)), many: events.filter(hasMany) }
}
