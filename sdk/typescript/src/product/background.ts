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

interface BackgroundInput {
  readonly held: Held
  readonly attempts: Attempts
  /** The product asked for a licence. */
  readonly isRequested: boolean
  /** A number from 0 to 1, constant for the life of a client: spreads installations that were started together. */
  readonly jitter: number
}

/** The work that is due, at the time that was last observed. */
export function dueTimes(input: BackgroundInput): DueTimes {
  const { held, attempts, jitter } = input
  const { time, turnedBack } = held.time
  const { list, namedBy } = revocationsOf(held)
  const claims = tokenOf(held)?.claims
  if (namedBy !== null) return { time, list: null, token: null, tokenEnd: null }
  if (!claims) return { time, list: null, token: activationDue(input), tokenEnd: null }

  const lateness = claims.offline ? 0 : ((claims.expiresAt - claims.issuedAt) / 10) * jitter
  const isUrgent = turnedBack && !claims.offline
  const refresh = isUrgent ? time : claims.refreshAfter + lateness
  const token = earliest(attempts.backoff.token, refresh, time)
  if (time >= claims.expiresAt) return { time, list: null, token, tokenEnd: null }

  // Up to a tenth earlier and never later, because a revocation must be noticed within the interval.
  const interval = claims.checkIntervalMs * (1 - jitter / 10)
  const checkedAt = list?.checkedAt ?? null
  const check = checkedAt === null || list?.more ? time : checkedAt + interval
  return { time, list: earliest(attempts.backoff.list, check, time), token, tokenEnd: claims.expiresAt }
}

/** A first activation that failed is retried. If it was refused, it is retried only when the product calls again. */
function activationDue({ held, attempts, isRequested }: BackgroundInput): number | null {
  const { token } = attempts.backoff
  const isRetried = isRequested && statusOf(held, attempts).status === 'unlicensed' && token.failures > 0
  return isRetried ? earliest(token, held.time.time, held.time.time) : null
}
