import type { Database, Transaction } from '@licensing/database/connect'
import { locks } from '@licensing/database/locks'
import { isDatabaseOutage } from '@licensing/database/problems'
import type { Logger } from '@licensing/process/log'
import { startLoop } from '@licensing/process/loop'
import type { Loop } from '@licensing/process/loop'
import type { NatsConnection } from 'nats'
import { Counter, Gauge } from 'prom-client'
import type { Nats } from './connection.ts'
import { publishInOrder } from './publish.ts'
import { ensureStream, subjectOf } from './streams.ts'
import type { Source } from './streams.ts'

/** Woken when there may be something to publish. */
export type Relay = Pick<Loop, 'wake' | 'stop'>

interface OutboxRow {
  position: bigint
  event_id: string
  partition: number
  name: string
  payload: Buffer
  trace_parent: string | null
}

const batchSize = 1_000
// What other replicas committed and did not publish, because they died, is found by this.
const pollMs = 200
// Another relay at work may have read before the latest commit, so that is looked at again soon.
const pauseMs = { more: 0, done: pollMs, busy: 5 }
const retryMs = 250
const publishTimeoutMs = 5_000

const published = new Counter({ name: 'outbox_published_total', help: 'Events acknowledged by JetStream' })
const waiting = new Gauge({
  name: 'outbox_oldest_seconds',
  help: 'Age of the oldest event not yet published',
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
  log: Logger
}): Relay {
  let streamReady = false
  const publishNext = async (signal: AbortSignal) => {
    await options.nats.whenConnected(signal)
    if (signal.aborted) return
    if (!streamReady) {
      const jsm = await options.nats.connection.jetstreamManager()
      await ensureStream(jsm, options.source, options.streamReplicas)
    }
    // Until this batch has succeeded: where it fails, the stream may be gone.
    streamReady = false
    const { connection } = options.nats
    const outcome = await options.sql.begin((tx) => publishBatch(tx, connection, options.source))
    streamReady = true
    return pauseMs[outcome]
  }
  return startLoop({
    work: publishNext,
    everyMs: pollMs,
    failed: (error) => options.log.warn({ err: error }, 'events could not be published, trying again'),
    isOutage: isDatabaseOutage,
    retry: { firstMs: retryMs, longestMs: retryMs },
  })
}

async function publishBatch(
  tx: Transaction,
  connection: NatsConnection,
  source: Source,
): Promise<keyof typeof pauseMs> {
  const [lock] = await tx<{ locked: boolean }[]>`select pg_try_advisory_xact_lock(${locks.relay}) as locked`
  if (!lock?.locked) return 'busy'
  const rows = await tx<(OutboxRow & { age: number })[]>`
    select position, event_id, partition, name, payload, trace_parent,
      extract(epoch from clock_timestamp() - created_at)::float8 as age
    from outbox order by position limit ${batchSize}`
  waiting.set(rows[0]?.age ?? 0)
  const [first, ...others] = rows.map((row) => ({
    id: row.event_id,
    subject: subjectOf(source, row.partition, row.name),
    payload: row.payload,
    traceParent: row.trace_parent,
  }))
  if (!first) return 'done'

  const js = connection.jetstream({ timeout: publishTimeoutMs })
  const stored = await publishInOrder(connection, js, [first, ...others])
  const positions = rows.slice(0, stored).map((row) => String(row.position))
  await tx`delete from outbox where position = any(${positions}::bigint[])`
  published.inc(stored)
  return rows.length === batchSize || stored < rows.length ? 'more' : 'done'
}
