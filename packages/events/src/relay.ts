import { oneConnection } from '@licensing/database/connect'
import type { Database } from '@licensing/database/connect'
import { startDatabaseLoop } from '@licensing/database/database-loop'
import { isDatabaseOutage } from '@licensing/database/problems'
import { sendTogether } from '@licensing/database/send-together'
import type { Logger } from '@licensing/process/log'
import { startLoop } from '@licensing/process/loop'
import { pause } from '@licensing/process/retry'
import { pacingConsumerOf, subjectOf } from '@licensing/proto/event-streams'
import type { Source } from '@licensing/proto/event-streams'
import { Counter } from 'prom-client'
import type { Nats } from './connection.ts'
import { beginEpoch, recordAlive } from './epoch-queries.ts'
import { startLogService } from './log-service.ts'
import { encoded, growLog } from './log-queries.ts'
import { begin, commit, lockState, moveToLog, rollback } from './outbox-queries.ts'
import type { LogState, MovedBatch } from './outbox-queries.ts'
import { ensureStream } from './streams.ts'

export interface Relay {
  /** Reports that there may be events to publish. */
  wake(): void
  stop(): Promise<void>
}

/** The operator's settings of a service's events. */
export interface RelaySettings {
  /** How many NATS servers keep the stream: 3 on a cluster of three. */
  streamReplicas: number
  /** Maximum size of the stream. When it is full, its oldest messages are removed. */
  streamBytes?: number | undefined
  /** Maximum size of the log in PostgreSQL while a consumer does not confirm its events. */
  logBytes?: number | undefined
  /** The log gets this many partitions, a multiple of those that it has. It keeps the partitions that it has. */
  partitions?: number | undefined
}

export function relaySettings(config: {
  STREAM_REPLICAS: number
  STREAM_MAX_BYTES: number
  EVENT_LOG_MAX_BYTES: number
  EVENT_PARTITIONS: number
}): RelaySettings {
  return {
    streamReplicas: config.STREAM_REPLICAS,
    streamBytes: config.STREAM_MAX_BYTES,
    logBytes: config.EVENT_LOG_MAX_BYTES,
    partitions: config.EVENT_PARTITIONS,
  }
}

export interface RelayOptions extends RelaySettings {
  sql: Database
  nats: Nats
  source: Source
  log: Logger
}

// Polling finds the events of replicas that were killed between commit and publication.
const pollMs = 7_500
// Accounts take turns: a round takes at most so many events of each account. If a round may have left events behind, the
// next one begins after `roundPauseMs`. A single account reaches 2,500 events a second.
const maxEventsPerAccount = 50
const maxEvents = 1_000
const roundPauseMs = 20
// No more events of an account are numbered while so many are unconfirmed, because other accounts of the partition wait for
// them. Two accounts' worth of these events, each with 20 endpoints, take the notifier a twentieth of a second.
const maxUnconfirmed = 50
// How often a relay looks whether another replica has received the confirmation of its own events.
const heldPollMs = 250
const maxBatchBytes = 128 * 1024
const streamTimeoutMs = 2_000
const keepStreamMs = 30_000
const aliveMs = 30_000

/**
 * Settings of the relay's connection: PostgreSQL reads the outbox only through its indexes. The outbox is empty most of the
 * time. A plan that is made then may read and sort all of it, and PostgreSQL keeps this plan when the table has grown: with
 * 40,000 rows it takes 2.5 s.
 */
const settings = {
  plan_cache_mode: 'force_generic_plan',
  enable_seqscan: 'off',
  enable_bitmapscan: 'off',
  enable_sort: 'off',
}

const published = new Counter({ name: 'outbox_published_total', help: 'Events numbered and published' })

/**
 * Numbers the events of the outbox, moves them to the log, publishes them, and serves the log to consumers. Only one replica at
 * a time numbers events: the others wait for its lock, which ends with its connection.
 *
 * The number is committed before the message leaves. If the message does not leave, or JetStream does not store it or loses
 * it, consumers notice the missing number and read the log.
 */
export function startRelay(options: RelayOptions): Relay {
  const { nats, source, log, partitions = 0 } = options
  const sql = oneConnection(options.sql, settings)
  const unconfirmed = new UnconfirmedEvents()
  let after = ''

  const publishBatches = async (signal: AbortSignal) => {
    await nats.whenConnected(signal)
    if (signal.aborted) return
    const held = unconfirmed.accountsAtLimit()
    const { state, batches } = await numberEvents(sql, source, { after, held })
    if (state.numbers.length < partitions) await growLog(sql, partitions)
    unconfirmed.update(state)
    unconfirmed.add(batches)
    // Does not wait for JetStream's answers: an answer costs this process 48 µs, a message 12 µs.
    for (const batch of batches) nats.connection.publish(subjectOf(source, batch.partition), encoded(batch))
    const count = batches.reduce((sum, batch) => sum + batch.event_count, 0)
    published.inc(count)
    const mayHaveMore = after !== '' || count >= maxEventsPerAccount
    if (!mayHaveMore && held.length === 0) return
    after = count < maxEvents ? '' : batches[0]!.last_account
    const isHeld = (account: string) => unconfirmed.accountsAtLimit().includes(account)
    // The round has learned that these events are confirmed.
    if (!held.every(isHeld)) return 0
    // A `wake` would end the loop's own pause.
    await pause(roundPauseMs, signal)
    return mayHaveMore ? 0 : heldPollMs
  }
  const ensureStreamExists = async (signal: AbortSignal) => {
    await nats.whenConnected(signal)
    if (signal.aborted) return
    const manager = await nats.connection.jetstreamManager({ timeout: streamTimeoutMs })
    await ensureStream(manager, source, options.streamReplicas, options.streamBytes)
  }

  const publishLoop = startLoop({
    work: publishBatches,
    everyMs: pollMs,
    failed: (error) => log.warn({ err: error }, 'events could not be published, trying again'),
    isOutage: isDatabaseOutage,
    retry: { firstMs: 250, maxMs: 1_000 },
  })
  const streamLoop = startLoop({
    work: ensureStreamExists,
    everyMs: keepStreamMs,
    failed: (error) =>
      log.warn({ err: error }, 'jetstream is unavailable: consumers read events from the log, seconds later'),
    isOutage: () => true,
  })
  const aliveLoop = startDatabaseLoop('epoch of the database', log, aliveMs, () => recordAlive(options.sql))
  const ignoreReconnects = nats.onReconnect(() => streamLoop.wake())
  // Numbers the events that waited for a confirmation.
  const confirmed = () => {
    if (unconfirmed.accountsAtLimit().length > 0) publishLoop.wake()
  }
  const service = startLogService({ ...options, confirmed })
  return {
    wake: () => publishLoop.wake(),
    async stop() {
      ignoreReconnects()
      await Promise.all([publishLoop.stop(), streamLoop.stop(), aliveLoop.stop(), service.stop()])
      await sql.end({ timeout: 5 })
    },
  }
}

/** Moves events from the outbox to the log: one transaction in one round trip, because others wait for its lock. */
async function numberEvents(sql: Database, source: Source, from: { after: string; held: string[] }) {
  const connection = await sql.reserve()
  try {
    const share = { ...from, each: maxEventsPerAccount, limit: maxEvents, batchBytes: maxBatchBytes }
    const [, [state], , batches] = await sendTogether(
      begin(connection),
      lockState(connection, [pacingConsumerOf(source)]),
      beginEpoch(connection),
      moveToLog(connection, share),
      commit(connection),
    )
    return { state: state!, batches }
  } catch (error) {
    await rollback(connection).catch(() => {})
    throw error
  } finally {
    connection.release()
  }
}

/**
 * The events that this relay has numbered and that the pacing consumer has not confirmed. They are kept in memory only: a relay
 * that starts, and each further replica, may number up to `maxUnconfirmed` more events of an account.
 */
class UnconfirmedEvents {
  /** For each event its batch, by account. */
  readonly #events = new Map<string, { partition: number; number: bigint }[]>()
  /** As of the last round. */
  #log: LogState = { numbers: [], confirmed: [] }

  accountsAtLimit(): string[] {
    return [...this.#events].flatMap(([account, { length }]) => (length >= maxUnconfirmed ? [account] : []))
  }

  add(batches: MovedBatch[]): void {
    for (const { partition, number, accounts } of batches) {
      this.#log.numbers[partition] = number
      // A consumer is ahead of the log if the log was restored to an earlier state.
      if (number <= (this.#log.confirmed[partition] ?? 0n)) continue
      for (const account of accounts) {
        const events = this.#events.get(account)
        if (events) events.push({ partition, number })
        else this.#events.set(account, [{ partition, number }])
      }
    }
  }

  /** Removes events that are confirmed, or that the log has lost, because it was restored to an earlier state. */
  update(log: LogState): void {
    const isSetBack = this.#log.numbers.some((number, partition) => number > (log.numbers[partition] ?? 0n))
    const isConfirmed = log.confirmed.some((number, partition) => number !== this.#log.confirmed[partition])
    this.#log = log
    if (!isSetBack && !isConfirmed) return
    const isUnconfirmed = ({ partition, number }: { partition: number; number: bigint }) =>
      number > (log.confirmed[partition] ?? 0n) && number <= (log.numbers[partition] ?? 0n)
    for (const [account, events] of this.#events) {
      const left = events.filter(isUnconfirmed)
      if (left.length === 0) this.#events.delete(account)
      else this.#events.set(account, left)
    }
  }
}
