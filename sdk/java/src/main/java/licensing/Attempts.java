package licensing;

import java.time.Instant;
import java.util.EnumSet;
import java.util.Set;
import licensing.LicenceState.Operation;
import licensing.LicenceState.Problem;

/**
 * The outcomes of the calls of this process: a value beside {@link Held}, which ends with the
 * process. It explains the state and decides when the next call may be. Times are in milliseconds
 * of trusted time.
 *
 * @param absence why there is no token, before the service was asked
 * @param failure the reason, if the last try to get a token failed
 * @param problem the most recent problem, unless a later success has ended it
 * @param forTokens when the service may be asked again for a token
 * @param forLists when the service may be asked again for a revocation list
 */
record Attempts(
    boolean isStoreRead,
    String absence,
    String failure,
    Problem problem,
    Backoff forTokens,
    Backoff forLists) {

  /** The attempts of a client that was just created. */
  static final Attempts NONE =
      new Attempts(false, Reasons.NOT_ACTIVATED, null, null, Backoff.NONE, Backoff.NONE);

  enum Kind {
    TOKEN,
    LIST
  }

  /** A problem before it is recorded. */
  record Trouble(String code, String detail, Long retryAfterMs) {
    Trouble(String code, String detail) {
      this(code, detail, null);
    }
  }

  private static final Set<Operation> NOT_FOR_TOKENS =
      EnumSet.of(Operation.CHECK, Operation.CALL_HOME, Operation.STORE, Operation.INTERNAL);

  /**
   * Records the problem of an operation. A success (null) ends the problem of the same operation
   * only.
   */
  Attempts withProblem(Operation operation, Trouble trouble, long time) {
    if (trouble != null) {
      Instant at = Instant.ofEpochMilli(time);
      return withProblem(new Problem(operation, trouble.code, trouble.detail, at));
    }
    return problem != null && problem.operation() == operation ? withProblem(null) : this;
  }

  /**
   * There is another token, or none any more: former failures and problems of tokens have ended.
   */
  Attempts withNewToken() {
    boolean isEnded = problem != null && !NOT_FOR_TOKENS.contains(problem.operation());
    return withFailure(null).withProblem(isEnded ? null : problem);
  }

  Attempts withStoreRead() {
    return new Attempts(true, absence, failure, problem, forTokens, forLists);
  }

  Attempts withAbsence(String reason) {
    return new Attempts(isStoreRead, reason, failure, problem, forTokens, forLists);
  }

  Attempts withFailure(String reason) {
    return new Attempts(isStoreRead, absence, reason, problem, forTokens, forLists);
  }

  Attempts withProblem(Problem next) {
    return new Attempts(isStoreRead, absence, failure, next, forTokens, forLists);
  }

  Backoff backoff(Kind kind) {
    return kind == Kind.TOKEN ? forTokens : forLists;
  }

  Attempts withBackoff(Kind kind, Backoff backoff) {
    return new Attempts(
        isStoreRead,
        absence,
        failure,
        problem,
        kind == Kind.TOKEN ? backoff : forTokens,
        kind == Kind.LIST ? backoff : forLists);
  }

  /**
   * When the service may be called again for one kind of request.
   *
   * @param retryAt when the background tries again after a failure
   * @param blockedUntil no call before this time ({@code Retry-After})
   */
  record Backoff(int failures, long retryAt, long blockedUntil) {
    static final Backoff NONE = new Backoff(0, 0, 0);

    private static final long FIRST_DELAY_MS = 30_000;
    static final long MAX_DELAY_MS = 3_600_000;

    /**
     * The pace after a failure: 30 s, doubling to an hour, shortened by up to half at random, so
     * that products do not retry together.
     *
     * @param random 0 to 1
     * @param retryAfterMs the wait that the service asked for; null if it did not
     */
    Backoff afterFailure(long time, double random, Long retryAfterMs, long maxMs) {
      long doubled = FIRST_DELAY_MS << Math.min(failures, 20);
      double delay = Math.min(doubled, Math.min(maxMs, MAX_DELAY_MS)) * (1 - random / 2);
      long wait = retryAfterMs == null ? 0 : retryAfterMs;
      return new Backoff(
          failures + 1,
          time + Math.max((long) delay, wait),
          retryAfterMs == null ? 0 : time + wait);
    }

    /** Whether a {@code Retry-After} of the service has not passed yet. */
    boolean isBlocked(long time) {
      return isAhead(blockedUntil, time);
    }

    /** The earliest time, from {@code wanted} on, at which the background may try. */
    long earliest(long wanted, long time) {
      return isAhead(retryAt, time) ? Math.max(wanted, retryAt) : wanted;
    }

    /**
     * Whether a time is in the future. If it is further ahead than the longest wait, a wrong clock
     * has set it: it is ignored.
     */
    private static boolean isAhead(long moment, long time) {
      return moment > time && moment - time <= MAX_DELAY_MS;
    }
  }
}
