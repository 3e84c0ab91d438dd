/**
 * When the service may be called again for one kind of request. All values are milliseconds of trusted time.
 */
export interface Backoff {
  readonly failures: number
  /** When the background tries again after a failure. */
  readonly retryAt: number
  /** No call before this time (`Retry-After`). */
  readonly blockedUntil: number
}

export const NO_BACKOFF: Backoff = { failures: 0, retryAt: 0, blockedUntil: 0 }

export interface DelayOptions {
  /** 0 to 1. */
  readonly random: number
  /** The wait that the service asked for. */
  readonly retryAfterMs: number | null
  readonly maxMs?: number | undefined
}

const FIRST_DELAY_MS = 30_000
const MAX_DELAY_MS = 3_600_000

/**
 * The pace after a failure: 30 s, doubling to an hour, shortened by up to half at random, so that products do not
 * retry together.
 */
export function afterFailure(backoff: Backoff, time: number, wait: DelayOptions): Backoff {
  const { random, retryAfterMs, maxMs = MAX_DELAY_MS } = wait
  const doubled = FIRST_DELAY_MS * 2 ** Math.min(backoff.failures, 20)
  const delay = Math.min(doubled, maxMs, MAX_DELAY_MS) * (1 - random / 2)
  return {
    failures: backoff.failures + 1,
    retryAt: time + Math.max(delay, retryAfterMs ?? 0),
    blockedUntil: retryAfterMs === null ? 0 : time + retryAfterMs,
  }
}

/** Whether a `Retry-After` of the service has not passed yet. */
export function isBlocked(backoff: Backoff, time: number): boolean {
  return isAhead(backoff.blockedUntil, time)
}

/** The earliest time, from `wanted` on, at which the background may try. */
export function earliest(backoff: Backoff, wanted: number, time: number): number {
  return isAhead(backoff.retryAt, time) ? Math.max(wanted, backoff.retryAt) : wanted
}

/** Whether a time is in the future. If it is further ahead than the longest wait, a wrong clock has set it: it is ignored. */
function isAhead(moment: number, time: number): boolean {
  return moment > time && moment - time <= MAX_DELAY_MS
}
