import type { Database, Transaction } from '@licensing/database/connect'
import { isDatabaseOutage } from '@licensing/database/problems'
import type { Logger } from '@licensing/process/log'
import { startLoop } from '@licensing/process/loop'
import type { Loop } from '@licensing/process/loop'
import type { NatsConnection, StreamInfo } from 'nats'
import { Counter, Gauge } from 'prom-client'
import type { Nats } from './connection.ts'
import { deletePublished, listUnpublished, lockRelay } from './outbox-queries.ts'
import { publishInOrder } from './publish.ts'
import { streamOf, subjectOf } from '@licensing/proto/event-streams'
import type { Source } from '@licensing/proto/event-streams'
import { ensureStream } from './streams.ts'

/** Woken when there may be something to publish. */
export type Relay = Pick<Loop, 'wake' | 'stop'>

const batchSize = 1_000
// What other replicas committed and did not publish, because they died, is found by this.
const pollMs = 200
// Another relay at work may have read before the latest commit, so that is looked at again soon.
const pauseMs = { more: 0, done: pollMs, busy: 5 }
const retryMs = 250
const measureMs = 60_000
const publishTimeoutMs = 5_000

const published = new Counter({ name: 'outbox_published_total', help: 'Events acknowledged by JetStream' })
const waiting = new Gauge({
  name: 'outbox_oldest_seconds',
  help: 'Age of the oldest event not yet published',
})

const streamUsed = new Gauge({
  name: 'stream_used_ratio',
  help: 'Part of what its stream may hold that is taken; a full stream makes events wait: raise STREAM_MAX_BYTES',
  labelNames: ['stream'],
})

/**
 * Publishes the outbox to the service's stream, in order. One relay at a time works on a database: each batch is one
 * transaction that holds an advisory lock, so that the lock goes with the connection. Rows are deleted once JetStream
 * has them; a crash before that publishes them again under the same message id. A failure stops the line.
 */
export function startRelay(options: {
  sql: Database
  nats: Nats
  source: Source
  streamReplicas: number
  /** What the stream may hold. One that is full refuses: events wait in the outbox then, and none is lost. */
  streamBytes?: number | undefined
  log: Logger
}): Relay {
  let streamReady = false
  const publishNext = async (signal: AbortSignal) => {
    await options.nats.whenConnected(signal)
    if (signal.aborted) return
    if (!streamReady) {
      const jsm = await options.nats.connection.jetstreamManager()
      const info = await ensureStream(jsm, options.source, options.streamReplicas, options.streamBytes)
      measureStream(info)
      noteSize(info)
    }
    // Until this batch has succeeded: where it fails, the stream may be gone.
    streamReady = false
    const { connection } = options.nats
    const outcome = await options.sql.begin((tx) => publishBatch(tx, connection, options.source))
    streamReady = true
    return pauseMs[outcome]
  }
  let sizeNoted = false
  const noteSize = ({ config }: StreamInfo) => {
    if (sizeNoted || options.streamBytes === undefined || config.max_bytes === options.streamBytes) return
    sizeNoted = true
    const sizes = { stream: config.name, max_bytes: config.max_bytes, wanted: options.streamBytes }
    options.log.warn(sizes, 'this NATS user may not change the size of its stream: see the runbook')
  }
  const measure = async (signal: AbortSignal) => {
    await options.nats.whenConnected(signal)
    if (signal.aborted) return
    const jsm = await options.nats.connection.jetstreamManager()
    measureStream(await jsm.streams.info(streamOf(options.source)))
  }
  const loop = startLoop({
    work: publishNext,
    everyMs: pollMs,
    failed: (error) => options.log.warn({ err: error }, 'events could not be published, trying again'),
    isOutage: isDatabaseOutage,
    retry: { firstMs: retryMs, longestMs: retryMs },
  })
  const measuring = startLoop({
    work: measure,
    everyMs: measureMs,
    // Without NATS nothing is published either, which is reported above.
    failed: (error) => options.log.debug({ err: error }, 'the stream could not be measured'),
    isOutage: isDatabaseOutage,
  })
  return {
    wake: () => loop.wake(),
    async stop() {
      await Promise.all([loop.stop(), measuring.stop()])
    },
  }
}

function measureStream({ config, state }: StreamInfo): void {
  const used = config.max_bytes > 0 ? state.bytes / config.max_bytes : 0
  streamUsed.set({ stream: config.name }, used)
}

async function publishBatch(
  tx: Transaction,
  connection: NatsConnection,
  source: Source,
): Promise<keyof typeof pauseMs> {
  if (!(await lockRelay(tx))) return 'busy'
  const rows = await listUnpublished(tx, batchSize)
  waiting.set(rows[0]?.age_seconds ?? 0)
  const [first, ...others] = rows.map((row) => ({
    id: row.event_id,
    subject: subjectOf(source, row.partition, row.name),
    payload: row.payload,
    traceParent: row.trace_parent,
  }))
  if (!first) return 'done'

  const js = connection.jetstream({ timeout: publishTimeoutMs })
  const stored = await publishInOrder(connection, js, [first, ...others])
  await deletePublished(
    tx,
    rows.slice(0, stored).map((row) => row.position),
  )
  published.inc(stored)
  return rows.length === batchSize || stored < rows.length ? 'more' : 'done'
}
