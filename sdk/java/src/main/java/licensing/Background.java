package licensing;

import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Future;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import java.util.stream.Stream;
import licensing.Attempts.Backoff;

/** The timer of a client: runs what is due. */
final class Background {
  /** Timers are late after a computer slept, so no timer is longer than a minute. */
  private static final long MAX_SLEEP_MS = 60_000;

  /** The shortest time between two checks. */
  private static final long MIN_SLEEP_MS = 1000;

  private final ScheduledExecutorService worker;
  private final Supplier<DueTimes> dueTimes;
  private final Supplier<CompletableFuture<?>> work;
  private Future<?> timer = CompletableFuture.completedFuture(null);
  private boolean isStopped = false;
  private boolean isWorking = false;

  Background(
      ScheduledExecutorService worker,
      Supplier<DueTimes> dueTimes,
      Supplier<CompletableFuture<?>> work) {
    this.worker = worker;
    this.dueTimes = dueTimes;
    this.work = work;
  }

  /** Sets the timer for the next work that is due. */
  synchronized void schedule() {
    timer.cancel(false);
    DueTimes due = dueTimes.get();
    Long next = due.next();
    if (isStopped || next == null) return;
    long delay = Math.min(Math.max(next - due.time, MIN_SLEEP_MS), MAX_SLEEP_MS);
    timer = worker.schedule(this::runWork, delay, TimeUnit.MILLISECONDS);
  }

  /**
   * Renews a token that is due at once: after the machine has slept, the timer may end up to a
   * minute later.
   */
  synchronized void wake() {
    if (isStopped || isWorking || !dueTimes.get().isTokenDue()) return;
    isWorking = true;
    worker.execute(this::runWork);
  }

  synchronized void stop() {
    isStopped = true;
    timer.cancel(false);
  }

  private void runWork() {
    setWorking(true);
    work.get()
        .whenComplete(
            (done, failed) -> {
              setWorking(false);
              schedule();
            });
  }

  private synchronized void setWorking(boolean isTrue) {
    isWorking = isTrue;
  }

  /**
   * When each kind of background work is due, in milliseconds of trusted time; null: not at all.
   *
   * @param time the current time
   * @param tokenEnd when the token ends: the state changes then, and listeners are called
   */
  record DueTimes(long time, Long list, Long token, Long tokenEnd) {
    /**
     * The work that is due, at the time that was last observed.
     *
     * @param isRequested the product asked for a licence
     * @param jitter a number from 0 to 1, constant for the life of a client: spreads installations
     *     that were started together
     */
    static DueTimes of(Held held, Attempts attempts, boolean isRequested, double jitter) {
      long time = held.time().time();
      TokenClaims claims = held.claims();
      if (held.isRevoked()) return new DueTimes(time, null, null, null);
      if (claims == null)
        return new DueTimes(time, null, activation(held, attempts, isRequested), null);

      long life = claims.expiresAt() - claims.issuedAt();
      long lateness = claims.offline() ? 0 : (long) (life / 10.0 * jitter);
      boolean isUrgent = held.time().turnedBack() && !claims.offline();
      long refresh = isUrgent ? time : claims.refreshAfter() + lateness;
      long token = attempts.forTokens().earliest(refresh, time);
      if (time >= claims.expiresAt()) return new DueTimes(time, null, token, null);

      // Up to a tenth earlier and never later, because a revocation must be noticed within the
      // interval.
      long interval = (long) (claims.checkIntervalMs() * (1 - jitter / 10));
      Held.HeldList list = held.revocations().list();
      boolean isAtOnce = list == null || list.checkedAt() == null || list.content().more();
      long check = isAtOnce ? time : list.checkedAt() + interval;
      return new DueTimes(
          time, attempts.forLists().earliest(check, time), token, claims.expiresAt());
    }

    /**
     * A first activation that failed is retried. If it was refused, it is retried only when the
     * product calls again.
     */
    private static Long activation(Held held, Attempts attempts, boolean isRequested) {
      Backoff backoff = attempts.forTokens();
      boolean isUnlicensed =
          LicenceState.statusOf(held, attempts) == LicenceState.Status.UNLICENSED;
      long time = held.time().time();
      return isRequested && isUnlicensed && backoff.failures() > 0
          ? (Long) backoff.earliest(time, time)
          : null;
    }

    boolean isListDue() {
      return list != null && list <= time;
    }

    boolean isTokenDue() {
      return token != null && token <= time;
    }

    /** The earliest of them; null if nothing is due. */
    Long next() {
      return Stream.of(list, token, tokenEnd)
          .filter(Objects::nonNull)
          .min(Long::compare)
          .orElse(null);
    }
  }
}
