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

// An account's turn: a tenth of a second with few endpoints.
const mostInTurn = 200
// What others send meanwhile waits for such a turn at each of its steps: with 3,500 events a second in line, 20 instead of
// 200 made half of the others' 13 ms instead of 54, and 1,340 a second are recorded instead of 2,700.
const mostInTurnBesideOthers = 20
// While reading is behind, recording takes a fifth of the time at most, one account at a time: what is read may be of
// accounts that have sent little.
const [mostInTurnBehind, restsBehind] = [50, 4]
// Else it leaves so much of this process's time to them.
const mostUtilization = 0.75
const lookEveryMs = 1_000
// What other replicas put in line is found by looking.
const idleMs = 8_000
// A turn that another replica has soon ends.
const pauseTakenMs = 50
const retryAfter: Pauses = { firstMs: 1_000, longestMs: 60_000 }
// Accounts in line are rare; one that has very much must not be the only one that moves.
const atOnce = 2

/** Records events that were put in line, accounts in turn. */
export function startRecordingDeferred(options: {
  sql: Database
  consume: Consume
  isTransient: (error: unknown) => boolean
  /** Whether more events wait to be read than those being consumed. */
  isBehind: () => boolean
  /** Whether accounts that have nothing in line have sent events of late. */
  isBesideOthers: () => boolean
  log: Logger
  /** Pauses between tries of what cannot be recorded; a second, doubled up to a minute, when absent. */
  retry?: Pauses
}): { wake(): void; stop(): Promise<void> } {
  let restsUntil = 0
  const stuck = new StuckLines(options.retry ?? retryAfter)
  const atWork = new Set<string>()
  const loops = Array.from({ length: atOnce }, (_, at) => {
    let last = ''
    let before = performance.eventLoopUtilization()
    const takeTurn = async (signal: AbortSignal) => {
      const { sql, isBehind, isBesideOthers } = options
      if (at > 0 && isBehind()) return lookEveryMs
      // Not the loop's pause, which ends when more is put in line.
      const restMs = restsUntil - performance.now()
      if (restMs > 0) await pause(restMs, signal)
      if (signal.aborted) return
      const startedAt = performance.now()
      const passed = () => [...stuck.accounts, ...atWork]
      const nextAfter = (after: string) => nextDeferredAccount(sql, after, passed())
      const due = stuck.takeDue()
      const next = due ?? (await nextAfter(last)) ?? (last && (await nextAfter('')))
      if (due === undefined) last = next || ''
      if (!next) return stuck.accounts.length > 0 ? lookEveryMs : 'idle'
      // The other loop has taken it meanwhile. Its lock does not show that between a turn that failed and the try of its
      // first event alone.
      if (due === undefined && passed().includes(next)) return 0
      const most = isBesideOthers() ? mostInTurnBesideOthers : isBehind() ? mostInTurnBehind : mostInTurn
      atWork.add(next)
      const outcome = await recordTurn(options, next, most).finally(() => atWork.delete(next))
      if (outcome === 'recorded') stuck.moved(next)
      if (outcome === 'failed') stuck.failed(next)
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
      idleMs,
      failed: (error) =>
        options.log.warn({ err: error }, 'events in line could not be recorded, trying again'),
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

/** One account's turn: `taken` where another replica has it. */
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
export interface Pauses {
  firstMs: number
  longestMs: number
}

/** Accounts whose first event in line could not be recorded, each with the time of its next try. */
export class StuckLines {
  readonly #pauses: Pauses
  readonly #lines = new Map<string, { failures: number; nextAt: number }>()

  constructor(pauses: Pauses) {
    this.#pauses = pauses
  }

  get accounts(): string[] {
    return [...this.#lines.keys()]
  }

  /** One whose next try is due; others are given it again only after a pause. */
  takeDue(): string | undefined {
    const now = performance.now()
    for (const [accountId, line] of this.#lines) {
      if (line.nextAt > now) continue
      line.nextAt = now + this.#pauses.firstMs
      return accountId
    }
    return undefined
  }

  failed(accountId: string): void {
    const { firstMs, longestMs } = this.#pauses
    const failures = (this.#lines.get(accountId)?.failures ?? 0) + 1
    const pauseMs = Math.min(firstMs * 2 ** Math.min(failures - 1, 30), longestMs)
    this.#lines.set(accountId, { failures, nextAt: performance.now() + pauseMs })
    stuckLines.set(this.#lines.size)
  }

  /** Its first event was recorded, or there is none any more. */
  moved(accountId: string): void {
    if (this.#lines.delete(accountId)) stuckLines.set(this.#lines.size)
  }
}
