import { earliest, type Attempts } from './attempts.ts'
import { revocationsOf, tokenOf, type Held } from './held.ts'
import { statusOf } from './state.ts'

/** Timers are late after a computer slept, so no timer is longer than a minute. */
const MAX_SLEEP_MS = 60_000
/** The shortest time between two checks. */
const MIN_SLEEP_MS = 1000

/** The timer of a client: runs what is due, and does not keep the process alive. */
export class Background {
  readonly #dueTimes: () => DueTimes
  readonly #work: () => Promise<void>
  #timer: ReturnType<typeof setTimeout> | undefined
  #stopped = false
  #working = false

  constructor(due: () => DueTimes, work: () => Promise<void>) {
    this.#dueTimes = due
    this.#work = work
  }

  /** Sets the timer for the next work that is due. */
  schedule(): void {
    clearTimeout(this.#timer)
    const { list, token, tokenEnd, time } = this.#dueTimes()
    const next = [list, token, tokenEnd].filter((moment) => moment !== null)
    if (this.#stopped || next.length === 0) return
    // A timer with a fraction of a millisecond can end early, when nothing is due yet.
    const untilNext = Math.ceil(Math.min(...next) - time)
    const delay = Math.min(Math.max(untilNext, MIN_SLEEP_MS), MAX_SLEEP_MS)
    this.#timer = setTimeout(() => void this.#runWork(), delay)
    unrefTimer(this.#timer)
  }

  /** Renews a token that is due at once: after the machine has slept, the timer may end up to a minute later. */
  wake(): void {
    const { token, time } = this.#dueTimes()
    if (this.#stopped || this.#working || token === null || token > time) return
    clearTimeout(this.#timer)
    void this.#runWork()
  }

  stop(): void {
    this.#stopped = true
    clearTimeout(this.#timer)
  }

  async #runWork(): Promise<void> {
    this.#working = true
    try {
      await this.#work()
    } finally {
      this.#working = false
      this.schedule()
    }
  }
}

/** Lets the process end while a timer waits. Node and Electron need this; elsewhere a timer is only a number. */
function unrefTimer(timer: unknown): void {
  if (typeof timer !== 'object' || timer === null || !('unref' in timer)) return
  if (typeof timer.unref === 'function') timer.unref()
}

/** When each kind of background work is due, in milliseconds of trusted time; null: not at all. */
export interface DueTimes {
  /** The current time. */
  readonly time: number
  readonly list: number | null
  readonly token: number | null
  /** When the token ends. The state changes then, and listeners are called. */
  readonly tokenEnd: number | null
}

/**
 * The work that is due, at the time that was last observed.
 *
 * @param isRequested whether the product asked for a licence
 * @param jitter a number from 0 to 1, constant for the life of a client: spreads installations that were started together
 */
export function dueTimes(held: Held, attempts: Attempts, isRequested: boolean, jitter: number): DueTimes {
  const { time, turnedBack } = held.time
  const { backoff } = attempts
  const { list, namedBy } = revocationsOf(held)
  const claims = tokenOf(held)?.claims
  const nothing = { time, list: null, token: null, tokenEnd: null }
  if (namedBy !== null) return nothing
  if (!claims) {
    // A first activation that failed is retried. If it was refused, it is retried only when the product calls again.
    const { status } = statusOf(held, attempts)
    const isRetried = isRequested && status === 'unlicensed' && backoff.token.failures > 0
    return isRetried ? { ...nothing, token: earliest(backoff.token, time, time) } : nothing
  }
  const { issuedAt, expiresAt, refreshAfter, checkIntervalMs, offline } = claims
  const refresh =
    turnedBack && !offline ? time : refreshAfter + (offline ? 0 : (expiresAt - issuedAt) / 10) * jitter
  const token = earliest(backoff.token, refresh, time)
  if (time >= expiresAt) return { ...nothing, token }
  // Up to a tenth earlier and never later, because a revocation must be noticed within the interval.
  const isKnown = list !== null && list.checkedAt !== null && !list.more
  const check = isKnown ? list.checkedAt + checkIntervalMs * (1 - jitter / 10) : time
  return { time, list: earliest(backoff.list, check, time), token, tokenEnd: expiresAt }
}
