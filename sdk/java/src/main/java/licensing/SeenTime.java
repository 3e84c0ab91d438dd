package licensing;

/**
 * The time by which tokens are judged. It starts from the time that the service last signed (or,
 * before that, from the local clock) and moves forward by what the local clock has moved forward
 * since. It never follows the local clock backward, so turning the clock back gains nothing, and a
 * clock with a constant error does no harm while the service can be reached.
 *
 * @param time the trusted time at the last observation
 * @param local the local clock at the last observation
 * @param turnedBack the local clock was found behind its last reading by more than the tolerance,
 *     and no token has set the time since
 * @param corrections how often a token has set the time; the observation with the higher number is
 *     newer
 */
record SeenTime(long time, long local, boolean turnedBack, long corrections) {
  /** A smaller step back may be a time synchronisation. */
  private static final long TURNED_BACK_TOLERANCE_MS = 300_000;

  static final long MAX_MS = 8_640_000_000_000_000L;

  static SeenTime first(long local) {
    return new SeenTime(local, local, false, 0);
  }

  SeenTime observe(long now) {
    long moved = now - local;
    boolean isBack = turnedBack || moved < -TURNED_BACK_TOLERANCE_MS;
    return new SeenTime(Math.min(time + Math.max(0, moved), MAX_MS), now, isBack, corrections);
  }

  /**
   * Joins two observations that were continued to the same local clock: the one with more
   * corrections, else the later time. Commutative, associative and idempotent.
   */
  SeenTime merge(SeenTime theirs) {
    if (corrections != theirs.corrections) return corrections > theirs.corrections ? this : theirs;
    return new SeenTime(
        Math.max(time, theirs.time),
        Math.max(local, theirs.local),
        turnedBack || theirs.turnedBack,
        corrections);
  }

  /**
   * An observation from the store, continued to the local clock of this one. A store can be edited,
   * so it sets the time back no further than to the local clock.
   */
  SeenTime admit(SeenTime stored) {
    return stored.observe(local).notBefore(Math.min(time, local));
  }

  /**
   * Moves the time forward to the moment at which the service signed something: the current time
   * cannot be earlier.
   */
  SeenTime notBefore(long signedAt) {
    return signedAt > time ? new SeenTime(signedAt, local, turnedBack, corrections) : this;
  }

  /**
   * Sets the time by a token that was issued in answer to a request of this installation. Only such
   * a token may set the time back, so that a clock that once ran ahead does not invalidate every
   * later token.
   */
  SeenTime correct(long to) {
    return new SeenTime(to, local, false, corrections + 1);
  }

  /**
   * Whether the trusted time is ahead of the local clock: then one of the two is, or was, wrong.
   */
  boolean isAhead() {
    return time - local > TURNED_BACK_TOLERANCE_MS;
  }
}
