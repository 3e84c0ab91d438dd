import { create, toBinary } from '@bufbuild/protobuf'
import type { Database } from '@licensing/database/connect'
import { isDatabaseOutage } from '@licensing/database/problems'
import { sendTogether } from '@licensing/database/send-together'
import type { Logger } from '@licensing/process/log'
import { pause, startLoop } from '@licensing/process/loop'
import { EventBatchSchema } from '@licensing/proto/event-log'
import { subjectOf } from '@licensing/proto/event-streams'
import type { Source } from '@licensing/proto/event-streams'
import { randomUUID } from 'node:crypto'
import { Counter } from 'prom-client'
import type { Nats } from './connection.ts'
import { startLogService } from './log-service.ts'
import {
  begin,
  beginEpoch,
  commit,
  insertBatches,
  lockState,
  rollback,
  takeShares,
} from './outbox-queries.ts'
import type { LogState, NewBatch, OutboxRow } from './outbox-queries.ts'
import { ensureStream } from './streams.ts'

export interface Relay {
  /** There may be events to publish. */
  wake(): void
  stop(): Promise<void>
}

export interface RelayOptions {
  sql: Database
  nats: Nats
  source: Source
  /** How many NATS servers keep the stream: 3 on a cluster of three. */
  streamReplicas: number
  /** Bytes that the stream may take; its oldest messages go first. */
  streamBytes?: number | undefined
  log: Logger
}

// Finds events of other replicas, which were killed between the commit and the publication.
const pollMs = 7_500
// Accounts take turns: each has so many events in a look, and looks that may leave events behind are so far apart. An account
// alone has 5,000 events a second.
const shareOfAccount = 100
const mostEvents = 1_000
const turnMs = 20
const mostBatchBytes = 128 * 1024
const streamTimeoutMs = 2_000
const keepStreamMs = 30_000

const published = new Counter({ name: 'outbox_published_total', help: 'Events numbered and published' })

/**
 * Numbers the events of the outbox, moves them to the log, publishes them, and serves the log to consumers. One replica
 * at a time does this: the others wait for its lock, which ends with its connection.
 *
 * The number is committed before the message leaves. If the message does not leave, or JetStream does not store it or loses
 * it, consumers notice the missing number and read the log.
 */
export function startRelay(options: RelayOptions): Relay {
  const { sql, nats, source, log } = options
  let after = ''

  const look = async (signal: AbortSignal) => {
    await nats.whenConnected(signal)
    if (signal.aborted) return
    const numbered = await numberEvents(sql, after)
    if (!numbered) return 0
    const { rows, batches } = numbered
    // Without waiting for JetStream: an answer costs this process 48 µs, a message 12.
    for (const { partition, bytes } of batches) nats.connection.publish(subjectOf(source, partition), bytes)
    published.inc(rows.length)
    if (after === '' && rows.length < shareOfAccount) return
    after = rows.length < mostEvents ? '' : rows.at(-1)!.account_id
    // Not the loop's own pause, which a wake ends.
    await pause(turnMs, signal)
    return 0
  }
  const keepStream = async (signal: AbortSignal) => {
    await nats.whenConnected(signal)
    if (signal.aborted) return
    const manager = await nats.connection.jetstreamManager({ timeout: streamTimeoutMs })
    await ensureStream(manager, source, options.streamReplicas, options.streamBytes)
  }

  const looking = startLoop({
    work: look,
    everyMs: pollMs,
    failed: (error) => log.warn({ err: error }, 'events could not be published, trying again'),
    isOutage: isDatabaseOutage,
    retry: { firstMs: 250, longestMs: 1_000 },
  })
  const keepingStream = startLoop({
    work: keepStream,
    everyMs: keepStreamMs,
    failed: (error) =>
      log.warn({ err: error }, 'jetstream is unavailable: consumers read events from the log, seconds later'),
    isOutage: () => true,
  })
  const ignoreReconnects = nats.onReconnect(() => keepingStream.wake())
  const service = startLogService(options)
  return {
    wake: () => looking.wake(),
    async stop() {
      ignoreReconnects()
      await Promise.all([looking.stop(), keepingStream.stop(), service.stop()])
    },
  }
}

/**
 * Moves events from the outbox to the log. It is one transaction in two round trips, because others wait for its lock.
 *
 * @returns undefined if an epoch had to begin first
 */
async function numberEvents(
  sql: Database,
  after: string,
): Promise<{ rows: OutboxRow[]; batches: NewBatch[] } | undefined> {
  const connection = await sql.reserve()
  try {
    const [, [state], rows] = await sendTogether(
      begin(connection),
      lockState(connection),
      takeShares(connection, { after, each: shareOfAccount, limit: mostEvents }),
    )
    if (state!.is_suspect) {
      await rollback(connection)
      await beginEpoch(connection, randomUUID())
      return undefined
    }
    const { batches, numbers } = batchesOf(rows, state!)
    if (batches.length === 0) await commit(connection)
    else await sendTogether(insertBatches(connection, numbers, batches), commit(connection))
    return { rows, batches }
  } catch (error) {
    await rollback(connection).catch(() => {})
    throw error
  } finally {
    connection.release()
  }
}

/** Batches of one partition each, with its next numbers. Each account's events stay in order. */
function batchesOf(rows: OutboxRow[], state: LogState): { batches: NewBatch[]; numbers: bigint[] } {
  const numbers = [...state.numbers]
  const batches: NewBatch[] = []
  const add = (partition: number, events: OutboxRow[]) => {
    const number = numbers[partition]! + 1n
    numbers[partition] = number
    const message = create(EventBatchSchema, {
      epoch: state.epoch,
      partition,
      number,
      events: events.map((row) => ({
        event: row.payload,
        traceParent: row.trace_parent ?? '',
        precedesEpoch: row.precedes_epoch,
      })),
    })
    batches.push({ partition, number, bytes: toBinary(EventBatchSchema, message) })
  }
  for (const [partition, events] of Map.groupBy(rows, (row) => row.partition)) {
    let [from, bytes] = [0, 0]
    for (const [at, { payload }] of events.entries()) {
      if (at > from && bytes + payload.length > mostBatchBytes) {
        add(partition, events.slice(from, at))
        ;[from, bytes] = [at, 0]
      }
      bytes += payload.length
    }
    add(partition, events.slice(from))
  }
  return { batches, numbers }
}
