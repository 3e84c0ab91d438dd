/**
 * When the service may be called again for one kind of request. All values are milliseconds of trusted time.
 */
export interface Pace {
  readonly failures: number
  /** When the background tries again after a failure. */
  readonly retryAt: number
  /** No call before this time (`Retry-After`). */
  readonly closedUntil: number
}

export const RESTED: Pace = { failures: 0, retryAt: 0, closedUntil: 0 }

export interface Wait {
  /** 0 to 1. */
  readonly random: number
  /** The wait that the service asked for. */
  readonly retryAfterMs: number | null
  readonly longestMs?: number | undefined
}

const FIRST_DELAY_MS = 30_000
const LONGEST_DELAY_MS = 3_600_000

/**
 * The pace after a failure: 30 s, doubling to an hour, shortened by up to half at random, so that products do not
 * retry together.
 */
export function slower(pace: Pace, time: number, wait: Wait): Pace {
  const { random, retryAfterMs, longestMs = LONGEST_DELAY_MS } = wait
  const doubled = FIRST_DELAY_MS * 2 ** Math.min(pace.failures, 20)
  const delay = Math.min(doubled, longestMs, LONGEST_DELAY_MS) * (1 - random / 2)
  return {
    failures: pace.failures + 1,
    retryAt: time + Math.max(delay, retryAfterMs ?? 0),
    closedUntil: retryAfterMs === null ? 0 : time + retryAfterMs,
  }
}

/** Whether a `Retry-After` of the service has not passed yet. */
export function isClosed(pace: Pace, time: number): boolean {
  return isAhead(pace.closedUntil, time)
}

/** The earliest time, from `wanted` on, at which the background may try. */
export function earliest(pace: Pace, wanted: number, time: number): number {
  return isAhead(pace.retryAt, time) ? Math.max(wanted, pace.retryAt) : wanted
}

/** Whether a time is in the future. If it is further ahead than the longest wait, a wrong clock has set it: it is ignored. */
function isAhead(moment: number, time: number): boolean {
  return moment > time && moment - time <= LONGEST_DELAY_MS
}
