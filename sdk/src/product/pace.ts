/**
 * When the service may be asked again for one kind of thing. All values are milliseconds of trusted time.
 */
export interface Pace {
  readonly failures: number
  /** When the background tries again after a failure. */
  readonly retryAt: number
  /** Until when the service asked to be left alone (`Retry-After`): nobody asks before that. */
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

/** After a failure: 30 s, doubling to an hour, of which up to half is taken off by `random` so that a crowd spreads. */
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

/** Whether the service asked not to be asked yet. */
export function isClosed(pace: Pace, time: number): boolean {
  return isAhead(pace.closedUntil, time)
}

/** The earliest time at which the background may try, given when it would like to. */
export function earliest(pace: Pace, wanted: number, time: number): number {
  return isAhead(pace.retryAt, time) ? Math.max(wanted, pace.retryAt) : wanted
}

/** A moment further off than any wait can be was noted before the time was set right: it does not count. */
function isAhead(moment: number, time: number): boolean {
  return moment > time && moment - time <= LONGEST_DELAY_MS
}
