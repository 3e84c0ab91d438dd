import { AsyncLocalStorage } from 'node:async_hooks'
import { pauseAfter, type Pauses } from './retry.ts'

export interface LoopOptions {
  /**
   * One round. Its result may set when the next round follows: after this number of milliseconds (0: at once), after a longer
   * pause because it found nothing (`idle`), only after `wake` (`asleep`), or never (`done`). The signal aborts when the loop
   * is stopped.
   */
  work: (signal: AbortSignal) => Promise<number | 'idle' | 'asleep' | 'done' | void>
  /**
   * Milliseconds from one round to the next, unless the round returns another time. After rounds that find nothing, the
   * pause doubles up to `maxIdleMs`; `wake` ends that.
   */
  everyMs: number
  /** Reports a failure. An outage is reported once. Other consecutive failures are reported at the 1st, 2nd, 4th, 8th… */
  failed: (error: unknown) => void
  /** Whether an error means that a dependency of the work, such as the database, is unavailable. */
  isOutage: (error: unknown) => boolean
  /** Pause after a failure, doubled with each further failure. By default `everyMs`, and at most 2,000 ms. */
  retry?: Pauses
}

const maxRetryMs = 2_000

/**
 * How often a loop looks for work that no `wake` has reported, such as the work of a replica that was killed. A loop that
 * its own process wakes needs no shorter pause.
 */
export const maxIdleMs = 10_000

// Loops with long pauses run up to this much early, to run together: an idle process then wakes less often.
const togetherMs = 2_500
// A timer may fire this much before its time.
const earlyMs = 25

/**
 * Background work in rounds, one at a time: at intervals, and at once after `wake`. After a failure it tries again, with
 * longer and longer pauses. It ends with `stop`, or when a round returns `done`.
 *
 * @example
 * const sweep = startLoop({ work: expire, everyMs: 60_000, failed, isOutage: isDatabaseOutage })
 * onStop('sweep', () => sweep.stop())
 */
export class Loop {
  readonly #options: LoopOptions
  readonly #retry: Pauses
  readonly #stopped = new AbortController()
  // Rounds must not have the deadline and the request id of a request that wakes the loop.
  readonly #inOwnContext = AsyncLocalStorage.snapshot()
  #timer: NodeJS.Timeout | undefined
  #dueAt = 0
  /** The time that a `wakeIn` during the current round asks for. */
  #wakeAt = Number.POSITIVE_INFINITY
  #running: Promise<void> | undefined
  #failures = 0
  #idleRounds = 0
  #isOut = false
  #isWoken = false
  #isStarted = false

  constructor(options: LoopOptions) {
    this.#options = options
    this.#retry = options.retry ?? { firstMs: options.everyMs, maxMs: maxRetryMs }
  }

  /** Starts the first round at once. */
  start(): void {
    if (this.#isStarted) return
    this.#isStarted = true
    this.wake()
  }

  /** There may be something to do. Does not shorten the pause after a failure. */
  wake(): void {
    if (!this.#isActive()) return
    this.#idleRounds = 0
    if (this.#running) this.#isWoken = true
    else if (this.#failures === 0) this.#run()
  }

  /** Runs a round in `ms` milliseconds, unless the next round is earlier. */
  wakeIn(ms: number): void {
    if (!this.#isActive()) return
    this.#idleRounds = 0
    const at = performance.now() + ms
    if (this.#running) this.#wakeAt = Math.min(this.#wakeAt, at)
    else if (this.#failures === 0 && at < this.#dueAt) this.#arm(Math.max(0, ms))
  }

  /** Ends the loop. Resolves when the current round has ended. */
  async stop(): Promise<void> {
    this.#stopped.abort()
    clearTimeout(this.#timer)
    await this.#running
  }

  #isActive(): boolean {
    return this.#isStarted && !this.#stopped.signal.aborted
  }

  #run(): void {
    clearTimeout(this.#timer)
    this.#isWoken = false
    this.#running = this.#inOwnContext(() => this.#roundAndNext())
  }

  async #roundAndNext(): Promise<void> {
    const next = await this.#round()
    this.#running = undefined
    if (next === 'done') this.#stopped.abort()
    if (next === 'done' || !this.#isActive()) return
    if (next === 0 || (this.#isWoken && this.#failures === 0)) return this.#run()
    const wakeInMs = this.#failures === 0 ? Math.max(0, this.#wakeAt - performance.now()) : next
    this.#wakeAt = Number.POSITIVE_INFINITY
    this.#arm(Math.min(next, wakeInMs))
  }

  /** @returns the milliseconds until the next round */
  async #round(): Promise<number | 'done'> {
    try {
      const next = await this.#options.work(this.#stopped.signal)
      this.#failures = 0
      this.#isOut = false
      this.#idleRounds = next === 'idle' ? this.#idleRounds + 1 : 0
      if (next === 'idle') return this.#idlePauseMs()
      return next === 'asleep' ? Number.POSITIVE_INFINITY : (next ?? this.#options.everyMs)
    } catch (error) {
      this.#failures += 1
      this.#report(error)
      return Math.max(1, pauseAfter(this.#retry, this.#failures))
    }
  }

  #idlePauseMs(): number {
    const { everyMs } = this.#options
    return pauseAfter({ firstMs: everyMs, maxMs: Math.max(everyMs, maxIdleMs) }, this.#idleRounds)
  }

  #report(error: unknown): void {
    const wasOut = this.#isOut
    this.#isOut = this.#options.isOutage(error)
    // A round that `stop` interrupts has not failed.
    if (this.#stopped.signal.aborted) return
    if (this.#isOut ? !wasOut : Number.isInteger(Math.log2(this.#failures))) this.#options.failed(error)
  }

  #arm(ms: number): void {
    clearTimeout(this.#timer)
    const now = performance.now()
    const at = now + ms
    this.#dueAt = ms < togetherMs ? at : Math.floor((at + earlyMs) / togetherMs) * togetherMs
    if (ms < Number.POSITIVE_INFINITY) this.#timer = setTimeout(() => this.#run(), this.#dueAt - now)
  }
}

/** A loop that has been started. */
export function startLoop(options: LoopOptions): Loop {
  const loop = new Loop(options)
  loop.start()
  return loop
}
