import type { Database, Transaction } from '@licensing/database/connect'
import type { Logger } from '@licensing/process/log'
import { headers } from 'nats'
import type { JetStreamClient } from 'nats'
import { Counter, Gauge } from 'prom-client'
import type { Nats } from './connection.ts'
import { ensureStream, subjectOf } from './streams.ts'
import type { Source } from './streams.ts'

export interface Relay {
  /** There may be something to publish. */
  wake(): void
  stop(): Promise<void>
}

interface OutboxRow {
  position: bigint
  event_id: string
  partition: number
  name: string
  payload: Buffer
  trace_parent: string | null
}

const batchSize = 500
// What other replicas committed and did not publish, because they died, is found by this.
const pollMs = 200
const retryMs = 250
const publishTimeoutMs = 5_000
const relayLock = 7_162_002

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
  const { log } = options
  const stopped = new AbortController()
  let wakeUp: () => void = () => {}
  let woken = false

  const pause = (ms: number) =>
    new Promise<void>((resolve) => {
      if (woken || stopped.signal.aborted) return resolve()
      const timer = setTimeout(resolve, ms)
      wakeUp = () => {
        clearTimeout(timer)
        resolve()
      }
    })

  const loop = async () => {
    let streamReady = false
    while (!stopped.signal.aborted) {
      woken = false
      try {
        await options.nats.whenConnected(stopped.signal)
        if (stopped.signal.aborted) return
        if (!streamReady) {
          const jsm = await options.nats.connection.jetstreamManager()
          await ensureStream(jsm, options.source, options.streamReplicas)
          streamReady = true
        }
        const js = options.nats.connection.jetstream({ timeout: publishTimeoutMs })
        const outcome = await options.sql.begin((tx) => publishBatch(tx, js, options.source))
        if (outcome === 'more') continue
        // Another relay is at work: it may have read before the latest commit, so look again soon.
        await pause(outcome === 'busy' ? 5 : pollMs)
      } catch (error) {
        if (stopped.signal.aborted) return
        streamReady = false
        log.warn({ err: error }, 'events could not be published, trying again')
        woken = false
        await pause(retryMs)
      }
    }
  }
  const running = loop()

  return {
    wake() {
      woken = true
      wakeUp()
    },
    async stop() {
      stopped.abort()
      wakeUp()
      await running
    },
  }
}

async function publishBatch(
  tx: Transaction,
  js: JetStreamClient,
  source: Source,
): Promise<'more' | 'done' | 'busy'> {
  const [lock] = await tx<{ locked: boolean }[]>`select pg_try_advisory_xact_lock(${relayLock}) as locked`
  if (!lock?.locked) return 'busy'
  const rows = await tx<(OutboxRow & { age: number })[]>`
    select position, event_id, partition, name, payload, trace_parent,
      extract(epoch from clock_timestamp() - created_at)::float8 as age
    from outbox order by position limit ${batchSize}`
  waiting.set(rows[0]?.age ?? 0)
  if (rows.length === 0) return 'done'

  const outcomes = await Promise.allSettled(
    rows.map((row, at) => publish(js, source, row, rows[at - 1]?.event_id)),
  )
  const failed = outcomes.findIndex((outcome) => outcome.status === 'rejected')
  const acknowledged = failed < 0 ? rows : rows.slice(0, failed)
  if (acknowledged.length > 0) {
    await tx`delete from outbox where position = any(${acknowledged.map((row) => String(row.position))}::bigint[])`
    published.inc(acknowledged.length)
  }
  const problem = outcomes[failed]
  if (problem?.status === 'rejected' && acknowledged.length === 0) throw problem.reason
  return rows.length === batchSize || failed >= 0 ? 'more' : 'done'
}

/**
 * A batch is sent without waiting in between; each message names the one before it, so that JetStream refuses all
 * that follow one that it did not store.
 */
async function publish(
  js: JetStreamClient,
  source: Source,
  row: OutboxRow,
  after: string | undefined,
): Promise<void> {
  const head = headers()
  if (row.trace_parent) head.set('traceparent', row.trace_parent)
  await js.publish(subjectOf(source, row.partition, row.name), row.payload, {
    msgID: row.event_id,
    headers: head,
    ...(after !== undefined && { expect: { lastMsgID: after } }),
  })
}
