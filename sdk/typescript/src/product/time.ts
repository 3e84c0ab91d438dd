/**
 * The time by which tokens are judged. It starts from the time that the service last signed (or, before that, from the local
 * clock) and moves forward by what the local clock has moved forward since. It never follows the local clock
 * backward, so turning the clock back gains nothing, and a clock with a constant error does no harm while
 * the service can be reached.
 *
 * All values are milliseconds since 1970 UTC.
 */
export interface SeenTime {
  /** The trusted time at the last observation. */
  readonly time: number
  /** The local clock at the last observation. */
  readonly local: number
  /** The local clock was found behind its last reading by more than the tolerance, and no token has set the time since. */
  readonly turnedBack: boolean
  /** How often a token has set the time. The observation with the higher number is newer. */
  readonly corrections: number
}

/** A smaller step back may be a time synchronisation. */
export const TURNED_BACK_TOLERANCE_MS = 300_000

/** The end of the range of `Date`. */
const MAX_TIME_MS = 8.64e15

/** The first observation of a client. */
export function firstObservation(local: number): SeenTime {
  return { time: local, local, turnedBack: false, corrections: 0 }
}

/** Observes the local clock. */
export function observe(seen: SeenTime, local: number): SeenTime {
  const moved = local - seen.local
  return {
    ...seen,
    time: Math.min(seen.time + Math.max(0, moved), MAX_TIME_MS),
    local,
    turnedBack: seen.turnedBack || moved < -TURNED_BACK_TOLERANCE_MS,
  }
}

/**
 * Joins two observations that were continued to the same local clock: the one with more corrections, else the later time.
 * Commutative, associative and idempotent.
 */
export function mergeTimes(mine: SeenTime, theirs: SeenTime): SeenTime {
  if (mine.corrections !== theirs.corrections) return mine.corrections > theirs.corrections ? mine : theirs
  return {
    time: Math.max(mine.time, theirs.time),
    local: Math.max(mine.local, theirs.local),
    turnedBack: mine.turnedBack || theirs.turnedBack,
    corrections: mine.corrections,
  }
}

/**
 * An observation from the store, continued to the local clock of `mine`. A store can be edited, so it sets the time back
 * no further than to the local clock.
 */
export function admit(stored: SeenTime, mine: SeenTime): SeenTime {
  return notBefore(observe(stored, mine.local), Math.min(mine.time, mine.local))
}

/** Moves the time forward to `signedAt`, when the service signed something: the current time cannot be earlier. */
export function notBefore(seen: SeenTime, signedAt: number): SeenTime {
  return signedAt > seen.time ? { ...seen, time: signedAt } : seen
}

/**
 * Sets the time to `time`, by a token that was issued in answer to a request of this installation. Only such a token
 * may set the time back, so that a clock that once ran ahead does not invalidate every later token. A token that was
 * kept from earlier may not, even if this installation has not seen it before.
 */
export function correct(seen: SeenTime, time: number): SeenTime {
  return { time, local: seen.local, turnedBack: false, corrections: seen.corrections + 1 }
}

/** Whether the trusted time is ahead of the local clock: then one of the two is, or was, wrong. */
export function isAhead(seen: SeenTime): boolean {
  return seen.time - seen.local > TURNED_BACK_TOLERANCE_MS
}
