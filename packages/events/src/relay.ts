import type { Database, Sql } from '@licensing/database/connect'
import { sendTogether } from '@licensing/database/send-together'
import { isDatabaseOutage } from '@licensing/database/problems'
import type { Logger } from '@licensing/process/log'
import { startLoop } from '@licensing/process/loop'
import type { Loop } from '@licensing/process/loop'
import type { StreamInfo } from 'nats'
import { Counter, Gauge } from 'prom-client'
import type { Nats } from './connection.ts'
import {
  begin,
  commit,
  deletePublished,
  findGrowth,
  hasUnnamed,
  listInOrder,
  listShares,
  lockRelay,
  oldestAge,
  rollback,
} from './outbox-queries.ts'
import type { OutboxRow } from './outbox-queries.ts'
import { publishInOrder } from './publish.ts'
import type { Message } from './publish.ts'
import { streamOf, subjectOf } from '@licensing/proto/event-streams'
import type { Source } from '@licensing/proto/event-streams'
import { ensureStream } from './streams.ts'

export interface Relay {
  /** There may be something to publish, of these accounts if they are known. */
  wake(accounts?: ReadonlySet<string>): void
  stop: Loop['stop']
}

const batchSize = 1_000
// What other replicas committed and did not publish, because they died, is found by this.
const pollMs = 200
// Another relay at work may have read before the latest commit, so that is looked at again soon.
const busyMs = 5
// An account that has more than its share in a batch goes on after a rest: some 3,000 events a second, which is what a
// notifier records of one account.
const alone = { share: 200, restMs: 50 }
// Some 850 a second where another account was published too within the last second. An account that sends more than this
// for long falls behind, so it is not less than a notifier on one core records of it beside others. In small parts: what
// others send waits for each of them.
const beside = { share: 20, restMs: 20 }
const besideMs = 1_000
// An account that commits more in a second than is published even when it is alone falls behind at any pace: the others
// come first while it does, and it has some 100 a second. With 200 their p99 was 13.3 ms instead of 11.9 (medians of five
// rounds in turn; without that account 6.9).
const flood = { from: 3_000, restMs: 200 }
// Accounts looked at in a second: to find that one is a flood reads 3,000 entries of an index.
const mostMeasured = 20
const measureEveryMs = 1_000
const retryMs = 250
const measureStreamMs = 60_000
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
    const nextMs = await publishBatch(options, shares)
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
    everyMs: measureStreamMs,
    // Without NATS nothing is published either, which is reported above.
    failed: (error) => options.log.debug({ err: error }, 'the stream could not be measured'),
    isOutage: isDatabaseOutage,
  })
  return {
    wake(accounts) {
      // It looks when the first rest ends, whatever is committed until then.
      if (accounts === undefined || !shares.haveRest(accounts)) loop.wake()
    },
    async stop() {
      await Promise.all([loop.stop(), measuring.stop()])
    },
  }
}

function measureStream({ config, state }: StreamInfo): void {
  const used = config.max_bytes > 0 ? state.bytes / config.max_bytes : 0
  streamUsed.set({ stream: config.name }, used)
}

/**
 * One transaction, in two round trips to PostgreSQL: what the next batch waits for, and with it the events of others.
 *
 * @returns milliseconds until there may be more to publish
 */
async function publishBatch(
  { sql, nats, source }: { sql: Database; nats: Nats; source: Source },
  shares: Shares,
): Promise<number> {
  const js = nats.connection.jetstream({ timeout: publishTimeoutMs })
  const connection = await sql.reserve()
  try {
    const [, [lock], found] = await sendTogether(
      begin(connection),
      lockRelay(connection),
      listShares(connection, shares.next()),
    )
    const isAlone = lock!.locked
    const rows = isAlone ? await shares.take(connection, found) : []
    const [first, ...others] = rows.map((row) => messageOf(row, source))
    const stored = first ? await publishInOrder(nats.connection, js, [first, ...others]) : 0
    const done = rows.slice(0, stored)
    // After a delete that failed PostgreSQL answers the commit with a rollback.
    await (stored > 0
      ? sendTogether(deletePublished(connection, done), commit(connection))
      : commit(connection))
    if (!isAlone) return busyMs
    published.inc(stored)
    if (stored > 0) shares.published(done)
    return stored < rows.length ? 0 : shares.pauseMs()
  } catch (error) {
    await rollback(connection).catch(() => {})
    throw error
  } finally {
    connection.release()
  }
}

function messageOf(row: OutboxRow, source: Source): Message {
  return {
    id: row.event_id,
    subject: subjectOf(source, row.partition, row.name),
    payload: row.payload,
    traceParent: row.trace_parent,
  }
}

/** Which events come next: no account's wait for all those of another. */
class Shares {
  #after = ''
  #isAll = true
  #measuredAt = -Infinity
  #hasUnnamed = false
  /** Accounts that rest, and until when. */
  readonly #rests = new Map<string, number>()
  /** The account published last, and until when those go more slowly that have more than their share. */
  #latest: string | undefined
  #besideUntil = 0
  #pace = alone
  /** Accounts that had their full share since the last measurement, and the newest event of each at that time. */
  #full = new Set<string>()
  #newest = new Map<string, bigint | null>()
  #floods = new Set<string>()

  /** What to list for the next batch. */
  next() {
    const now = performance.now()
    this.#pace = now < this.#besideUntil ? beside : alone
    for (const [account, until] of this.#rests) if (until <= now) this.#rests.delete(account)
    return {
      after: this.#after,
      without: [...this.#rests.keys()],
      each: this.#pace.share,
      limit: batchSize,
    }
  }

  /** @param found what was listed for it. @returns what to publish */
  async take(tx: Sql, found: OutboxRow[]): Promise<OutboxRow[]> {
    if (performance.now() - this.#measuredAt >= measureEveryMs) await this.#measure(tx)
    const rows = this.#hasUnnamed ? await listInOrder(tx, batchSize) : found
    // What follows the last account, and then what comes before it.
    this.#isAll = rows.length < batchSize && this.#after === ''
    this.#after = rows.length < batchSize || this.#hasUnnamed ? '' : rows.at(-1)!.account_id
    return rows
  }

  /** Whether nothing of these accounts is published before a rest ends. */
  haveRest(accounts: ReadonlySet<string>): boolean {
    const now = performance.now()
    return [...accounts].every((account) => (this.#rests.get(account) ?? now) > now)
  }

  published(rows: OutboxRow[]): void {
    const counts = new Map<string, number>()
    for (const { account_id: account } of rows) counts.set(account, (counts.get(account) ?? 0) + 1)
    const now = performance.now()
    for (const [account, count] of counts) {
      if (count < this.#pace.share) continue
      this.#full.add(account)
      const isFlood = this.#pace === beside && this.#floods.has(account)
      this.#rests.set(account, now + (isFlood ? flood.restMs : this.#pace.restMs))
    }
    const latest = rows.at(-1)!.account_id
    if (counts.size > 1 || latest !== (this.#latest ?? latest)) this.#besideUntil = now + besideMs
    this.#latest = latest
  }

  async #measure(tx: Sql): Promise<void> {
    this.#measuredAt = performance.now()
    const full = [...this.#full].slice(0, mostMeasured)
    const [age, isUnnamed, growths] = await Promise.all([
      oldestAge(tx),
      hasUnnamed(tx),
      findGrowth(
        tx,
        full.map((id) => ({ id, after: this.#newest.get(id) ?? null })),
        flood.from,
      ),
    ])
    waiting.set(age)
    this.#hasUnnamed = isUnnamed
    this.#full.clear()
    this.#newest = new Map(growths.map(({ account_id: account, newest }) => [account, newest]))
    this.#floods = new Set(
      growths.flatMap(({ account_id: account, is_flood: isFlood }) => (isFlood ? account : [])),
    )
  }

  /** Until the next batch: none where more waits than was taken. */
  pauseMs(): number {
    if (!this.#isAll) return 0
    const nextMs = Math.min(...this.#rests.values()) - performance.now()
    return Math.min(pollMs, Math.max(1, Math.ceil(nextMs)))
  }
}
