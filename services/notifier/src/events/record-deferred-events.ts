import { fromBinary } from '@bufbuild/protobuf'
import type { Database } from '@licensing/database/connect'
import { startDatabaseLoop } from '@licensing/database/database-loop'
import { transaction } from '@licensing/database/transaction'
import { BatchTooLarge } from '@licensing/events/consumer-options'
import type { Received } from '@licensing/events/consumer-options'
import type { Logger } from '@licensing/process/log'
import { pause } from '@licensing/process/loop'
import { EventSchema } from '@licensing/proto/events'
import { Gauge } from 'prom-client'
import type { Consume } from './consume-events.ts'
import { lockDeferred, nextDeferredAccount, takeDeferred } from './deferred-event-queries.ts'
import type { DeferredEvent } from './deferred-event-queries.ts'

// The most events of an account in one batch, before the next account is processed: a tenth of a second with few endpoints.
const batchSize = 200
// The batch size while accounts without deferred events send events too, because their events wait for each batch. With 3,500
// deferred events a second and batches of 20 instead of 200, the median delay of these events was 13 ms instead of 54, and
// 1,340 deferred events a second were recorded instead of 2,700 (measured).
const batchSizeWithOthers = 20
// The batch size while the consumers have a backlog. Then one account is processed at a time, and a pause of four times its
// duration follows each batch: the waiting events in the stream may belong to accounts that have sent few events.
const batchSizeWhenBehind = 50
const pauseFactorWhenBehind = 4
// Without a backlog, pauses keep the process busy for at most this share of the time.
const maxUtilization = 0.75
const pollMs = 1_000
// The pause when another replica is recording events of the account.
const pauseWhenLockedMs = 50
const retryAfter: Pauses = { firstMs: 1_000, maxMs: 60_000 }
// There are two loops, so that one account with very many events does not keep all others waiting.
const loopCount = 2

/** Records deferred events in batches of one account. Accounts take turns. */
export function startRecordingDeferred(options: {
  sql: Database
  consume: Consume
  isTransient: (error: unknown) => boolean
  /** Whether the consumers have a backlog. */
  isBehind: () => boolean
  /** Whether accounts without deferred events have sent events within the last second. */
  hasOtherEvents: () => boolean
  log: Logger
  /** Pauses between tries of an event that cannot be recorded. Default: a second, doubled up to a minute. */
  retry?: Pauses
}): { wake(): void; stop(): Promise<void> } {
  let pausedUntil = 0
  const tries = new Tries(options.retry ?? retryAfter)
  const loops = Array.from({ length: loopCount }, (_, at) => {
    let last = ''
    let before = performance.eventLoopUtilization()
    const work = async (signal: AbortSignal) => {
      const { sql, isBehind, hasOtherEvents } = options
      if (at > 0 && isBehind()) return pollMs
      // The loop's own pause would end as soon as more events are deferred.
      const pauseMs = pausedUntil - performance.now()
      if (pauseMs > 0) await pause(pauseMs, signal)
      if (signal.aborted) return
      const startedAt = performance.now()
      const nextAfter = (after: string) => nextDeferredAccount(sql, after, tries.accounts)
      const due = tries.firstDue()
      const next = due ?? (await nextAfter(last)) ?? (last && (await nextAfter('')))
      if (due === undefined) last = next || ''
      if (!next) return tries.accounts.length > 0 ? pollMs : at === 0 ? 'idle' : 'asleep'
      // The other loop may have begun this account meanwhile. The lock of the account does not show it: between a batch that
      // failed and the try of its first event alone, no transaction holds the lock.
      if (!tries.begin(next)) return 0
      // The other loop sleeps until there is something to do. It may begin its round within this call.
      if (at === 0) for (const loop of loops.slice(1)) loop.wake()
      const max = hasOtherEvents() ? batchSizeWithOthers : isBehind() ? batchSizeWhenBehind : batchSize
      let outcome: Outcome | undefined
      try {
        outcome = await recordEvents(options, next, max)
      } finally {
        tries.end(next, outcome)
      }
      const { active, idle } = performance.eventLoopUtilization(before)
      before = performance.eventLoopUtilization()
      if (outcome === 'taken') return pauseWhenLockedMs
      const endedAt = performance.now()
      const wantedMs = isBehind()
        ? pauseFactorWhenBehind * (endedAt - startedAt)
        : active / maxUtilization - active - idle
      pausedUntil = Math.max(pausedUntil, endedAt + Math.min(wantedMs, pollMs))
      return 0
    }
    return startDatabaseLoop('deferred events', options.log, pollMs, work)
  })
  return {
    wake: () => loops.forEach((loop) => loop.wake()),
    async stop() {
      await Promise.all(loops.map((loop) => loop.stop()))
    },
  }
}

type Outcome = 'recorded' | 'taken' | 'failed'

/** Records events of one account. @returns `taken` if another replica is recording events of the account */
async function recordEvents(
  { sql, consume, isTransient, log }: Parameters<typeof startRecordingDeferred>[0],
  accountId: string,
  maxEvents: number,
): Promise<Outcome> {
  let first: string | undefined
  const record = (max: number) =>
    transaction(sql, async (tx) => {
      if (!(await lockDeferred(tx, accountId))) return undefined
      const events = (await takeDeferred(tx, accountId, max)).map(toReceived)
      first = events[0]?.event.id
      return consume(tx, events, true)
    })
  for (let max = maxEvents; ;) {
    try {
      const recorded = await record(max)
      recorded?.send()
      return recorded ? 'recorded' : 'taken'
    } catch (error) {
      if (error instanceof BatchTooLarge && max > error.maxBatchSize) {
        max = error.maxBatchSize
      } else if (isTransient(error)) {
        throw error
      } else if (max > 1) {
        max = 1
      } else {
        const about = { err: error, account_id: accountId, event_id: first }
        log.error(about, 'the first deferred event of an account cannot be recorded, trying again')
        return 'failed'
      }
    }
  }
}

function toReceived({ payload, trace_parent: traceParent }: DeferredEvent): Received {
  return { event: fromBinary(EventSchema, payload), payload, traceParent: traceParent ?? undefined }
}

const failingAccounts = new Gauge({
  name: 'events_deferred_failing_accounts',
  help: 'Accounts whose first deferred event cannot be recorded and is tried again: look at the log',
})

/** The pauses between the tries of one account: the first, doubled up to the longest. */
interface Pauses {
  firstMs: number
  maxMs: number
}

/** Accounts that are being tried, or whose first deferred event could not be recorded, each with the time of its next try. */
class Tries {
  readonly #pauses: Pauses
  readonly #accounts = new Map<string, { failures: number; nextAt: number }>()

  constructor(pauses: Pauses) {
    this.#pauses = pauses
  }

  get accounts(): string[] {
    return [...this.#accounts.keys()]
  }

  /** An account whose next try is due. */
  firstDue(): string | undefined {
    return this.accounts.find((accountId) => this.#isDue(accountId))
  }

  /** @returns false if the account is being tried, or its next try is not due */
  begin(accountId: string): boolean {
    if (!this.#isDue(accountId)) return false
    this.#set(accountId, this.#failures(accountId), Number.POSITIVE_INFINITY)
    return true
  }

  /** `outcome` is undefined if the database is unavailable. */
  end(accountId: string, outcome: Outcome | undefined): void {
    const { firstMs, maxMs } = this.#pauses
    const failures = this.#failures(accountId) + (outcome === 'failed' ? 1 : 0)
    // The first event was recorded, there are no more events, or the account has not failed yet.
    if (outcome === 'recorded' || failures === 0) this.#accounts.delete(accountId)
    else if (outcome !== 'failed') this.#set(accountId, failures, firstMs)
    else this.#set(accountId, failures, Math.min(firstMs * 2 ** Math.min(failures - 1, 30), maxMs))
    failingAccounts.set([...this.#accounts.values()].filter((account) => account.failures > 0).length)
  }

  #isDue(accountId: string): boolean {
    return (this.#accounts.get(accountId)?.nextAt ?? 0) <= performance.now()
  }

  #failures(accountId: string): number {
    return this.#accounts.get(accountId)?.failures ?? 0
  }

  #set(accountId: string, failures: number, inMs: number): void {
    this.#accounts.set(accountId, { failures, nextAt: performance.now() + inMs })
  }
}
