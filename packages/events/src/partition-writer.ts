import type { Outage } from '@licensing/database/outage'
import { transaction } from '@licensing/database/transaction'
import type { Transaction } from '@licensing/database/connect'
import { pause } from '@licensing/process/loop'
import type { JsMsg } from 'nats'
import { Counter } from 'prom-client'
import { BatchTooLarge } from './consumer-options.ts'
import type { ConsumerOptions, Received } from './consumer-options.ts'
import {
  holdsPartition,
  isConsumedBefore,
  movePosition,
  recordConsumed,
  recordDeadLettered,
  recordNew,
} from './consumer-queries.ts'
import { leaseMs } from './partitions.ts'
import { decode, eventIdOf, logFieldsOf } from './received.ts'
import { streamOf } from '@licensing/proto/event-streams'

/** A message of the partition, and the event in it; none where its payload is no event. */
export interface Taken {
  message: JsMsg
  received: Received | undefined
}

const mostTogether = 500
const poisonTries = 5

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

export class PartitionLost extends Error {}

/**
 * Consumes what a reader adds, in that order, each batch in one transaction with the position. Meanwhile the reader may
 * have events of other accounts consumed first.
 */
export class PartitionWriter {
  readonly #options: ConsumerOptions
  readonly #place: { stream: string; partition: number; member: string }
  readonly #stopping = new AbortController()
  readonly #signal: AbortSignal
  readonly #outage: Outage
  readonly #failed: () => void
  #position: bigint
  #end: bigint
  #waiting: Taken[] = []
  /** How many events of each account were added and are not committed. */
  readonly #accounts = new Map<string, number>()
  #running: Promise<void> | undefined
  #problem: unknown
  #advanced = () => {}

  /** @param failed called where it cannot go on: `throwProblem` says why */
  constructor(
    options: ConsumerOptions,
    reading: { partition: number; member: string; position: bigint; outage: Outage; signal: AbortSignal },
    failed: () => void,
  ) {
    const { partition, member, position, outage, signal } = reading
    this.#options = options
    this.#place = { stream: streamOf(options.source), partition, member }
    this.#position = position
    this.#end = position
    this.#outage = outage
    this.#signal = AbortSignal.any([signal, this.#stopping.signal])
    this.#failed = failed
  }

  get isIdle(): boolean {
    return this.#running === undefined
  }

  /** How many wait for those that are being consumed. */
  get waiting(): number {
    return this.#waiting.length
  }

  /** Whether events of this account are to be consumed before any that follows. */
  isOwed(accountId: string): boolean {
    return this.#accounts.has(accountId)
  }

  throwProblem(): void {
    if (this.#problem !== undefined) throw this.#problem
  }

  /** Consumes these and then has the position at `end`: all others up to there have been consumed. */
  add(taken: Taken[], end: bigint): void {
    for (const each of taken) {
      this.#waiting.push(each)
      this.#owe(each, 1)
    }
    this.#end = end
    this.#start()
  }

  /**
   * Consumes these at once, of accounts that are not owed any. The position stays: they are known by their ids, should
   * they be read again.
   *
   * @returns false where that failed: they are to be added
   */
  async consumeFirst(events: Received[]): Promise<boolean> {
    try {
      await this.#commit(events, async (tx) => holdsPartition(tx, this.#place))
      return true
    } catch (error) {
      if (error instanceof PartitionLost) throw error
      return false
    }
  }

  /** Resolves when no more than so many wait, or it ends. */
  async untilWaiting(most: number): Promise<void> {
    while (this.#running && this.#waiting.length > most) await this.#next()
  }

  /** Resolves when all is consumed, or it ends. */
  async untilIdle(): Promise<void> {
    while (this.#running) await this.#next()
  }

  /** Ends after what is being consumed; the rest is to be read again. */
  async stop(): Promise<void> {
    this.#stopping.abort()
    await this.#running
  }

  #next(): Promise<void> {
    return new Promise((resolve) => (this.#advanced = resolve))
  }

  #start(): void {
    this.#running ??= this.#run().then(() => {
      this.#running = undefined
      // Added in the moment between its end and this.
      if (this.#position < this.#end && !this.#signal.aborted) this.#start()
      this.#advanced()
    })
  }

  async #run(): Promise<void> {
    try {
      while (this.#position < this.#end && !this.#signal.aborted) {
        const batch = this.#waiting.splice(0, mostTogether)
        const to = this.#waiting.length > 0 ? BigInt(batch.at(-1)!.message.seq) : this.#end
        await this.#take(batch, to)
        if (this.#position < to) return
        for (const each of batch) this.#owe(each, -1)
        this.#advanced()
      }
    } catch (error) {
      this.#problem = error
      this.#stopping.abort()
      this.#failed()
    }
  }

  #owe({ received }: Taken, change: number): void {
    if (!received) return
    const { accountId } = received.event
    const count = (this.#accounts.get(accountId) ?? 0) + change
    if (count > 0) this.#accounts.set(accountId, count)
    else this.#accounts.delete(accountId)
  }

  /** Effect, record of the ids and position in one transaction. */
  async #take(batch: Taken[], to: bigint): Promise<void> {
    for (let tries = 1; !this.#signal.aborted; tries += 1) {
      try {
        const events = batch.map(({ received, message }) => received ?? decode(message))
        await this.#commit(events, (tx) => this.#move(tx, to))
        this.#position = to
        this.#outage.over()
        return
      } catch (error) {
        if (error instanceof PartitionLost) throw error
        if (error instanceof BatchTooLarge && batch.length > error.mostTogether) {
          return await this.#takeInParts(batch, error.mostTogether, to)
        }
        const transient = this.#options.isTransient(error)
        if (!transient && batch.length > 1) return await this.#takeInParts(batch, 1, to)
        const last = batch.at(-1)?.message
        if (this.#outage.isNews(error)) {
          const which = batch.length === 1 ? logFieldsOf(last!) : {}
          this.#options.log.warn(
            { err: error, stream: this.#place.stream, tries, seq: last?.seq, ...which },
            'event could not be consumed, trying again',
          )
        }
        if (!transient && last && tries >= poisonTries) return await this.#park(last, to, error)
        await pause(Math.min(50 * 2 ** tries, 2_000), this.#signal)
      }
    }
  }

  async #takeInParts(batch: Taken[], size: number, to: bigint): Promise<void> {
    for (let from = 0; from < batch.length && !this.#signal.aborted; from += size) {
      const part = batch.slice(from, from + size)
      const isLast = from + size >= batch.length
      await this.#take(part, isLast ? to : BigInt(part.at(-1)!.message.seq))
    }
  }

  async #commit(events: Received[], isOurs: (tx: Transaction) => Promise<boolean>): Promise<void> {
    try {
      await this.#consume(events, isOurs, recordNew)
    } catch (error) {
      if (!isConsumedBefore(error)) throw error
      await this.#consume(events, isOurs, recordConsumed)
    }
    consumed.inc({ stream: this.#place.stream }, events.length)
    this.#options.committed?.()
  }

  async #consume(
    events: Received[],
    isOurs: (tx: Transaction) => Promise<boolean>,
    record: typeof recordConsumed,
  ): Promise<void> {
    const afterCommit = await transaction(this.#options.sql, async (tx) => {
      const ids = events.map(({ event }) => event.id)
      // Sent together, in this order.
      const [ours, fresh] = await Promise.all([isOurs(tx), record(tx, ids)])
      if (!ours) throw new PartitionLost('another replica holds this partition')
      const unseen = events.filter(({ event }) => fresh.delete(event.id))
      return unseen.length > 0 ? await this.#options.handle(tx, unseen) : undefined
    })
    afterCommit?.()
  }

  #move(tx: Transaction, to: bigint): Promise<boolean> {
    return movePosition(tx, { ...this.#place, from: this.#position, to, leaseMs })
  }

  /** A poison message: kept in the dead-letter stream, counted, logged; what comes after it flows on. */
  async #park(message: JsMsg, to: bigint, error: unknown): Promise<void> {
    const { log, nats, service, sql } = this.#options
    const { stream } = this.#place
    // Without the message's own headers: they name what came before it in its stream.
    await nats.connection.jetstream().publish(`dead-letters.${service}.${message.subject}`, message.data, {
      msgID: `${service}:${stream}:${message.seq}`,
    })
    await transaction(sql, async (tx) => {
      if (!(await this.#move(tx, to))) throw new PartitionLost('another replica holds this partition')
      const eventId = eventIdOf(message)
      if (eventId) await recordDeadLettered(tx, eventId)
    })
    this.#position = to
    parked.inc({ stream })
    const which = { stream, seq: message.seq, ...logFieldsOf(message) }
    log.error({ err: error, ...which }, 'event moved to the dead-letter stream')
  }
}
