/**
 * The time that tokens are judged by. It starts from what the service last signed (or, before that, from the local
 * clock) and moves forward by what the local clock has moved forward since. It never follows the local clock
 * backward, so turning the clock back gains nothing; and a clock that is wrong, but steadily so, loses nothing while
 * the service can be reached.
 *
 * All values are milliseconds since 1970 UTC.
 */
export interface SeenTime {
  /** The trusted time at the last look. */
  readonly time: number
  /** What the local clock said at the last look. */
  readonly local: number
  /** The local clock was found behind its last reading by more than the tolerance, and no token has been issued since. */
  readonly turnedBack: boolean
}

/** Smaller steps back are what time synchronisation does. */
export const TURNED_BACK_TOLERANCE_MS = 300_000

/** The last that a `Date` can hold. */
const LAST_MOMENT = 8.64e15

/** A look at the local clock. */
export function observe(seen: SeenTime | null, local: number): SeenTime {
  if (!seen) return { time: local, local, turnedBack: false }
  const moved = local - seen.local
  return {
    time: Math.min(seen.time + Math.max(0, moved), LAST_MOMENT),
    local,
    turnedBack: seen.turnedBack || moved < -TURNED_BACK_TOLERANCE_MS,
  }
}

/**
 * The first look after a start, with what the store kept. A store can be edited, so from there time is never earlier
 * than the local clock: only a token that comes from the service can set it right where the clock runs ahead.
 */
export function resume(stored: SeenTime, local: number): SeenTime {
  return notBefore(observe(stored, local), local)
}

/** The service signed something at `signedAt`: it cannot be earlier than that now. */
export function notBefore(seen: SeenTime, signedAt: number): SeenTime {
  return signedAt > seen.time ? { ...seen, time: signedAt } : seen
}

/**
 * A token was issued just now, and it is newer than anything signed that was seen before: the one moment when the
 * time may be set back, so that a clock that once ran ahead does not spoil every later token.
 */
export function anchor(seen: SeenTime, issuedAt: number): SeenTime {
  return { time: issuedAt, local: seen.local, turnedBack: false }
}
