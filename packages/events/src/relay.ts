import { create, toBinary } from '@bufbuild/protobuf'
import type { Database, Sql } from '@licensing/database/connect'
import { isDatabaseOutage } from '@licensing/database/problems'
import { sendTogether } from '@licensing/database/send-together'
import type { Logger } from '@licensing/process/log'
import { pause, startLoop } from '@licensing/process/loop'
import type { Loop } from '@licensing/process/loop'
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
  findState,
  hasWork,
  listShares,
  lockRelay,
  moveToLog,
  rollback,
} from './outbox-queries.ts'
import type { LogState, NewBatch, OutboxRow } from './outbox-queries.ts'
import { ensureStream } from './streams.ts'

export interface Relay {
  /** There may be events to publish. */
  wake(): void
  stop: Loop['stop']
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

// Finds what other replicas committed and did not publish, because they were killed.
const pollMs = 7_500
// Another relay at work may have read before the latest commit, so this one looks again soon.
const busyMs = 5
// Accounts take turns: each gets so many events into a look, and looks with events left over are so far apart. An account
// alone has 5,000 events a second.
const shareOfAccount = 100
const mostEvents = 1_000
const turnMs = 20
const mostBatchBytes = 128 * 1024
const publishTimeoutMs = 2_000
const keepStreamMs = 30_000

const published = new Counter({ name: 'outbox_published_total', help: 'Events numbered and published' })
const unacknowledged = new Counter({
  name: 'outbox_unacknowledged_total',
  help: 'Times that JetStream did not acknowledge events: consumers read them from the log, seconds later',
})

/**
 * Numbers the events of the outbox, moves them to the log, publishes them, and serves the log to consumers. One relay at
 * a time numbers: each look is one transaction that holds an advisory lock, so that the lock goes with the connection.
 *
 * The number is committed before the message leaves. What JetStream does not store or loses, consumers miss by its number
 * and read from the log.
 */
export function startRelay(options: RelayOptions): Relay {
  const { sql, nats, source, log } = options
  let after = ''
  let nextTurnAt = 0
  let isStreamUp = false
  const look = async (signal: AbortSignal) => {
    await nats.whenConnected(signal)
    // A timer takes at least a millisecond.
    const waitMs = nextTurnAt - performance.now()
    if (waitMs > 0) await pause(waitMs, signal)
    if (signal.aborted) return
    const { rows, batches, isBusy } = await numberEvents(sql, after)
    if (isBusy) return busyMs
    published.inc(rows.length)
    if (batches.length > 0 && !(await publish(options, batches, isStreamUp))) {
      isStreamUp = false
      keepingStream.wake()
    }
    const isWhole = rows.length < mostEvents
    const isDone = isWhole && after === '' && !hasFullShare(rows)
    after = isWhole ? '' : rows.at(-1)!.account_id
    nextTurnAt = isDone ? 0 : performance.now() + turnMs
    return isDone ? 'asleep' : 0
  }
  const keepStream = async (signal: AbortSignal) => {
    await nats.whenConnected(signal)
    if (signal.aborted) return
    const manager = await nats.connection.jetstreamManager({ timeout: publishTimeoutMs })
    await ensureStream(manager, source, options.streamReplicas, options.streamBytes)
    isStreamUp = true
  }
  const keepingStream = startLoop({
    work: keepStream,
    everyMs: keepStreamMs,
    failed: (error) =>
      log.warn({ err: error }, 'jetstream is unavailable: consumers read events from the log, seconds later'),
    isOutage: () => true,
  })
  const looking = startLoop({
    work: look,
    everyMs: pollMs,
    failed: (error) => log.warn({ err: error }, 'events could not be published, trying again'),
    isOutage: isDatabaseOutage,
    retry: { firstMs: 250, longestMs: 1_000 },
  })
  const watching = startLoop({
    work: async () => {
      if (await hasWork(sql)) looking.wake()
    },
    everyMs: pollMs,
    failed: (error) => log.warn({ err: error }, 'the outbox could not be read, trying again'),
    isOutage: isDatabaseOutage,
  })
  const service = startLogService(options)
  return {
    wake: () => looking.wake(),
    async stop() {
      await watching.stop()
      await Promise.all([looking.stop(), keepingStream.stop(), service.stop()])
    },
  }
}

/** One transaction, in two round trips: what the next look waits for, and with it the events of others. */
async function numberEvents(
  sql: Database,
  after: string,
): Promise<{ rows: OutboxRow[]; batches: NewBatch[]; isBusy: boolean }> {
  const connection = await sql.reserve()
  try {
    const [, [lock], [found], rows] = await sendTogether(
      begin(connection),
      lockRelay(connection),
      findState(connection),
      listShares(connection, { after, each: shareOfAccount, limit: mostEvents }),
    )
    const isBusy = !lock!.locked
    // Also without events: consumers ignore what NATS still has of a log that was set back.
    const state = !isBusy && found!.is_suspect ? await newEpoch(connection, found!) : found!
    if (isBusy || rows.length === 0) {
      await commit(connection)
      return { rows: [], batches: [], isBusy }
    }
    if (found!.is_suspect) for (const row of rows) row.precedes_epoch = true
    const { batches, numbers } = batchesOf(rows, state)
    const [moved] = await sendTogether(
      moveToLog(connection, { from: state, to: numbers, rows, batches }),
      commit(connection),
    )
    if (moved.count !== batches.length) throw new Error('another relay has numbered events at the same time')
    return { rows, batches, isBusy: false }
  } catch (error) {
    await rollback(connection).catch(() => {})
    throw error
  } finally {
    connection.release()
  }
}

async function newEpoch(tx: Sql, state: LogState): Promise<LogState> {
  const epoch = randomUUID()
  await beginEpoch(tx, epoch)
  return { ...state, epoch, is_suspect: false }
}

/** Batches of one partition each, with its next numbers. Each account's events stay in order. */
function batchesOf(
  rows: OutboxRow[],
  { numbers: from, epoch }: LogState,
): { batches: NewBatch[]; numbers: bigint[] } {
  const numbers = [...from]
  const batches: NewBatch[] = []
  const byPartition = Map.groupBy(rows, (row) => row.partition)
  for (const [partition, events] of byPartition) {
    let batch: OutboxRow[] = []
    let bytes = 0
    const close = () => {
      if (batch.length === 0) return
      numbers[partition]! += 1n
      const number = numbers[partition]!
      const message = create(EventBatchSchema, {
        epoch: epoch!,
        partition,
        number,
        events: batch.map((row) => ({
          event: row.payload,
          traceParent: row.trace_parent ?? '',
          precedesEpoch: row.precedes_epoch,
        })),
      })
      batches.push({ partition, number, bytes: toBinary(EventBatchSchema, message) })
      batch = []
      bytes = 0
    }
    for (const row of events) {
      if (bytes + row.payload.length > mostBatchBytes) close()
      batch.push(row)
      bytes += row.payload.length
    }
    close()
  }
  return { batches, numbers }
}

/**
 * Publishes batches in their order. Only the last is acknowledged: an answer costs this process 48 µs, a message 12.
 *
 * @param isStreamUp false: no answer is waited for
 * @returns whether JetStream is up
 */
async function publish(
  { nats, source, log }: RelayOptions,
  batches: NewBatch[],
  isStreamUp: boolean,
): Promise<boolean> {
  const last = batches.at(-1)!
  try {
    for (const { partition, bytes } of isStreamUp ? batches.slice(0, -1) : batches) {
      nats.connection.publish(subjectOf(source, partition), bytes)
    }
    if (!isStreamUp) return false
    const stream = nats.connection.jetstream({ timeout: publishTimeoutMs })
    await stream.publish(subjectOf(source, last.partition), last.bytes)
    return true
  } catch (error) {
    unacknowledged.inc()
    log.warn({ err: error }, 'jetstream did not acknowledge events: consumers read them from the log')
    return false
  }
}

function hasFullShare(rows: OutboxRow[]): boolean {
  let account = ''
  let count = 0
  for (const row of rows) {
    count = row.account_id === account ? count + 1 : 1
    account = row.account_id
    if (count === shareOfAccount) return true
  }
  return false
}
