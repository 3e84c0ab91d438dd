import type { Database, Transaction } from '@licensing/database/connect'
import { Outage } from '@licensing/database/outage'
import type { Logger } from '@licensing/process/log'
import type { NatsConnection } from 'nats'
import { Counter, Gauge } from 'prom-client'
import type { Nats } from './connection.ts'
import { publishInOrder } from './publish.ts'
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

const batchSize = 1_000
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
    const outage = new Outage()
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
        const { connection } = options.nats
        const outcome = await options.sql.begin((tx) => publishBatch(tx, connection, options.source))
        outage.over()
        if (outcome === 'more') continue
        // Another relay is at work: it may have read before the latest commit, so look again soon.
        await pause(outcome === 'busy' ? 5 : pollMs)
      } catch (error) {
        if (stopped.signal.aborted) return
        streamReady = false
        if (outage.isNews(error)) log.warn({ err: error }, 'events could not be published, trying again')
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
  connection: NatsConnection,
  source: Source,
): Promise<'more' | 'done' | 'busy'> {
  const [lock] = await tx<{ locked: boolean }[]>`select pg_try_advisory_xact_lock(${relayLock}) as locked`
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
