import type { Database, Transaction } from '@licensing/database/connect'
import { isDatabaseOutage } from '@licensing/database/problems'
import type { Logger } from '@licensing/process/log'
import { startLoop } from '@licensing/process/loop'
import type { Loop } from '@licensing/process/loop'
import type { NatsConnection, StreamInfo } from 'nats'
import { Counter, Gauge } from 'prom-client'
import type { Nats } from './connection.ts'
import {
  deletePublished,
  hasUnnamed,
  listInOrder,
  listShares,
  lockRelay,
  oldestAge,
} from './outbox-queries.ts'
import type { OutboxRow } from './outbox-queries.ts'
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
const busyMs = 5
// An account that has more than its share in a batch goes on after a rest: some 3,000 events a second, which is what a
// notifier records of one account.
const alone = { share: 200, restMs: 50 }
// Some 900 a second where another account was published too within the last second. Beside an account that commits 10,000
// a second, the p99 of 100 others was 45 ms so, 56 to 81 at 3,000 a second and 37 at 450; without it 18. An account that
// sends more than this for long falls behind, so it is not less than a notifier on one core records of it beside others.
const beside = { share: 50, restMs: 50 }
const besideMs = 1_000
const ageEveryMs = 1_000
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
 * Publishes the outbox to the service's stream: each account's events in order, accounts in turn. One relay at a time
 * works on a database: each batch is one transaction that holds an advisory lock, so that the lock goes with the
 * connection. Rows are deleted once JetStream has them; a crash before that publishes them again under the same message
 * id. A failure stops the line.
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
  const shares = new Shares()
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
    const nextMs = await options.sql.begin((tx) => publishBatch(tx, connection, options.source, shares))
    streamReady = true
    return nextMs
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

/** @returns milliseconds until there may be more to publish */
async function publishBatch(
  tx: Transaction,
  connection: NatsConnection,
  source: Source,
  shares: Shares,
): Promise<number> {
  if (!(await lockRelay(tx))) return busyMs
  const rows = await shares.next(tx)
  const [first, ...others] = rows.map((row) => ({
    id: row.event_id,
    subject: subjectOf(source, row.partition, row.name),
    payload: row.payload,
    traceParent: row.trace_parent,
  }))
  if (!first) return shares.pauseMs()

  const js = connection.jetstream({ timeout: publishTimeoutMs })
  const stored = await publishInOrder(connection, js, [first, ...others])
  await deletePublished(
    tx,
    rows.slice(0, stored).map((row) => row.position),
  )
  published.inc(stored)
  shares.published(rows.slice(0, stored))
  return stored < rows.length ? 0 : shares.pauseMs()
}

/** Which events come next: no account's wait for all those of another. */
class Shares {
  #after = ''
  #isAll = true
  #measuredAt = 0
  /** Accounts that rest, and until when. */
  readonly #rests = new Map<string, number>()
  /** The account published last, and until when those go more slowly that have more than their share. */
  #latest: string | undefined
  #besideUntil = 0
  #pace = alone

  async next(tx: Transaction): Promise<OutboxRow[]> {
    const now = performance.now()
    this.#pace = now < this.#besideUntil ? beside : alone
    for (const [account, until] of this.#rests) if (until <= now) this.#rests.delete(account)
    const measure = now - this.#measuredAt >= ageEveryMs
    if (measure) this.#measuredAt = now
    const [rows, isInOrder, age] = await Promise.all([
      listShares(tx, {
        after: this.#after,
        without: [...this.#rests.keys()],
        each: this.#pace.share,
        limit: batchSize,
      }),
      hasUnnamed(tx),
      measure ? oldestAge(tx) : undefined,
    ])
    if (age !== undefined) waiting.set(age)
    const taken = isInOrder ? await listInOrder(tx, batchSize) : rows
    // What follows the last account, and then what comes before it.
    this.#isAll = taken.length < batchSize && this.#after === ''
    this.#after = taken.length < batchSize || isInOrder ? '' : taken.at(-1)!.account_id
    return taken
  }

  published(rows: OutboxRow[]): void {
    const counts = new Map<string, number>()
    for (const { account_id: account } of rows) counts.set(account, (counts.get(account) ?? 0) + 1)
    const now = performance.now()
    const { share, restMs } = this.#pace
    for (const [account, count] of counts) if (count >= share) this.#rests.set(account, now + restMs)
    const latest = rows.at(-1)!.account_id
    if (counts.size > 1 || latest !== (this.#latest ?? latest)) this.#besideUntil = now + besideMs
    this.#latest = latest
  }

  /** Until the next batch: none where more waits than was taken. */
  pauseMs(): number {
    if (!this.#isAll) return 0
    const nextMs = Math.min(...this.#rests.values()) - performance.now()
    return Math.min(pollMs, Math.max(1, Math.ceil(nextMs)))
  }
}
