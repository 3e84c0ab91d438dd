import { fromBinary } from '@bufbuild/protobuf'
import type { Database } from '@licensing/database/connect'
import { isDatabaseOutage } from '@licensing/database/problems'
import { transaction } from '@licensing/database/transaction'
import { BatchTooLarge } from '@licensing/events/consumer-options'
import type { Received } from '@licensing/events/consumer-options'
import type { Logger } from '@licensing/process/log'
import { pause, startLoop } from '@licensing/process/loop'
import { EventSchema } from '@licensing/proto/events'
import { Gauge } from 'prom-client'
import type { Consume } from './consume-events.ts'
import { lockDeferred, nextDeferredAccount, takeDeferred } from './deferred-event-queries.ts'
import type { DeferredEvent } from './deferred-event-queries.ts'

// Events that an account may record before the next account has its turn: a tenth of a second with few endpoints.
const mostInTurn = 200
// The same, while accounts without deferred events send some, because these wait for each turn. With 3,500 deferred events
// a second and 20 in a turn instead of 200, their median delay was 13 ms instead of 54, and 1,340 deferred events a second
// were recorded instead of 2,700 (measured).
const mostInTurnBesideOthers = 20
// While the consumers are behind, this takes at most a fifth of the time, one account at a time: the events that wait in the
// stream may belong to accounts that have sent little.
const [mostInTurnBehind, restsBehind] = [50, 4]
// Otherwise the process may be busy for this share of the time.
const mostUtilization = 0.75
const lookEveryMs = 1_000
// After another replica was found to have an account's turn, which ends soon.
const pauseTakenMs = 50
const retryAfter: Pauses = { firstMs: 1_000, longestMs: 60_000 }
// One account with very many events must not be the only one whose events are recorded.
const atOnce = 2

/** Records deferred events. Accounts take turns. */
export function startRecordingDeferred(options: {
  sql: Database
  consume: Consume
  isTransient: (error: unknown) => boolean
  /** Whether the consumers have a backlog. */
  isBehind: () => boolean
  /** Whether accounts without deferred events have sent events within the last second. */
  isBesideOthers: () => boolean
  log: Logger
  /** Pauses between tries of an event that cannot be recorded. Default: a second, doubled up to a minute. */
  retry?: Pauses
}): { wake(): void; stop(): Promise<void> } {
  let restsUntil = 0
  const stuck = new StuckLines(options.retry ?? retryAfter)
  const atWork = new Set<string>()
  /** The account is at work until its next try is known, so that the other loop does not try it at once. */
  const turnOf = async (accountId: string, most: number) => {
    atWork.add(accountId)
    try {
      const outcome = await recordTurn(options, accountId, most)
      if (outcome === 'recorded') stuck.moved(accountId)
      if (outcome === 'failed') stuck.failed(accountId)
      if (outcome === 'taken') stuck.postponed(accountId)
      return outcome
    } catch (error) {
      stuck.postponed(accountId)
      throw error
    } finally {
      atWork.delete(accountId)
    }
  }
  const loops = Array.from({ length: atOnce }, (_, at) => {
    let last = ''
    let before = performance.eventLoopUtilization()
    const takeTurn = async (signal: AbortSignal) => {
      const { sql, isBehind, isBesideOthers } = options
      if (at > 0 && isBehind()) return lookEveryMs
      // Not the loop's own pause: that ends as soon as more events are deferred.
      const restMs = restsUntil - performance.now()
      if (restMs > 0) await pause(restMs, signal)
      if (signal.aborted) return
      const startedAt = performance.now()
      const passed = () => [...stuck.accounts, ...atWork]
      const nextAfter = (after: string) => nextDeferredAccount(sql, after, passed())
      const due = stuck.firstDue(atWork)
      const next = due ?? (await nextAfter(last)) ?? (last && (await nextAfter('')))
      if (due === undefined) last = next || ''
      if (!next) return stuck.accounts.length > 0 ? lookEveryMs : at === 0 ? 'idle' : 'asleep'
      // The others look only when there is something to do.
      if (at === 0) for (const loop of loops.slice(1)) loop.wake()
      // The other loop may have taken this account meanwhile. The lock of the account does not show it: between a batch that
      // failed and the try of its first event alone, no transaction holds the lock.
      if (due === undefined && passed().includes(next)) return 0
      const most = isBesideOthers() ? mostInTurnBesideOthers : isBehind() ? mostInTurnBehind : mostInTurn
      const outcome = await turnOf(next, most)
      const { active, idle } = performance.eventLoopUtilization(before)
      before = performance.eventLoopUtilization()
      if (outcome === 'taken') return pauseTakenMs
      const endedAt = performance.now()
      const wantedMs = isBehind()
        ? restsBehind * (endedAt - startedAt)
        : active / mostUtilization - active - idle
      restsUntil = Math.max(restsUntil, endedAt + Math.min(wantedMs, lookEveryMs))
      return 0
    }
    return startLoop({
      work: takeTurn,
      everyMs: lookEveryMs,
      failed: (error) =>
        options.log.warn({ err: error }, 'deferred events could not be recorded, trying again'),
      isOutage: isDatabaseOutage,
    })
  })
  return {
    wake: () => loops.forEach((loop) => loop.wake()),
    async stop() {
      await Promise.all(loops.map((loop) => loop.stop()))
    },
  }
}

/** Records events of one account. @returns `taken` if another replica is recording events of the account */
async function recordTurn(
  { sql, consume, isTransient, log }: Parameters<typeof startRecordingDeferred>[0],
  accountId: string,
  mostInTurn: number,
): Promise<'recorded' | 'taken' | 'failed'> {
  let first: string | undefined
  const record = (most: number) =>
    transaction(sql, async (tx) => {
      if (!(await lockDeferred(tx, accountId))) return undefined
      const events = (await takeDeferred(tx, accountId, most)).map(toReceived)
      first = events[0]?.event.id
      return consume(tx, events, true)
    })
  for (let most = mostInTurn; ;) {
    try {
      const recorded = await record(most)
      recorded?.send()
      return recorded ? 'recorded' : 'taken'
    } catch (error) {
      if (error instanceof BatchTooLarge && most > error.mostTogether) {
        most = error.mostTogether
      } else if (isTransient(error)) {
        throw error
      } else if (most > 1) {
        most = 1
      } else {
        const about = { err: error, account_id: accountId, event_id: first }
        log.error(about, 'an event in line cannot be recorded, trying again')
        return 'failed'
      }
    }
  }
}

function toReceived({ payload, trace_parent: traceParent }: DeferredEvent): Received {
  return { event: fromBinary(EventSchema, payload), payload, traceParent: traceParent ?? undefined }
}

const stuckLines = new Gauge({
  name: 'event_lines_stuck',
  help: 'Accounts whose first event in line cannot be recorded and is tried again: look at the log',
})

/** The pauses between the tries of one account: the first, doubled up to the longest. */
interface Pauses {
  firstMs: number
  longestMs: number
}

/** Accounts whose first deferred event could not be recorded, each with the time of its next try. */
class StuckLines {
  readonly #pauses: Pauses
  readonly #lines = new Map<string, { failures: number; nextAt: number }>()

  constructor(pauses: Pauses) {
    this.#pauses = pauses
  }

  get accounts(): string[] {
    return [...this.#lines.keys()]
  }

  /** An account whose next try is due. `running`: accounts whose try has not ended yet. */
  firstDue(running: ReadonlySet<string>): string | undefined {
    const now = performance.now()
    for (const [accountId, { nextAt }] of this.#lines) {
      if (nextAt <= now && !running.has(accountId)) return accountId
    }
    return undefined
  }

  /** Another replica is recording events of this account, or the database is unavailable. */
  postponed(accountId: string): void {
    const line = this.#lines.get(accountId)
    if (line) line.nextAt = performance.now() + this.#pauses.firstMs
  }

  failed(accountId: string): void {
    const { firstMs, longestMs } = this.#pauses
    const failures = (this.#lines.get(accountId)?.failures ?? 0) + 1
    const pauseMs = Math.min(firstMs * 2 ** Math.min(failures - 1, 30), longestMs)
    this.#lines.set(accountId, { failures, nextAt: performance.now() + pauseMs })
    stuckLines.set(this.#lines.size)
  }

  /** The account's first event was recorded, or it has none any more. */
  moved(accountId: string): void {
    if (this.#lines.delete(accountId)) stuckLines.set(this.#lines.size)
  }
}
