package licensing;

import java.time.Instant;
import java.util.Locale;

/**
 * Everything that a product may need to know about its licence. It does not change.
 *
 * @param usable whether features and limits are granted now: {@code status} is licensed or grace
 * @param reason one of {@link Reasons}, or another refusal of the service; null when licensed or
 *     starting
 * @param licenceStatus the status of the licence when the service signed the token: {@code active}
 *     or {@code downgraded}
 * @param seats the number of seats the product should enforce; null for no such limit
 * @param updatesUntil the product may be updated to releases until this time; null: to all. See
 *     {@link LicenceClient#covers}
 * @param expiresAt the token's end; null without a token
 * @param refreshAfter half of the token's life, when renewal begins; for an offline token its end
 * @param offline whether the token came in a file, by {@link LicenceClient#activateOffline}
 * @param clockTurnedBack the local clock was turned back, and no token has been issued since
 * @param problem the most recent problem, unless a later success has ended it; null if there is
 *     none
 */
public record LicenceState(
    Status status,
    boolean usable,
    String reason,
    String licenceId,
    String activationId,
    String planId,
    String licenceStatus,
    Long seats,
    Instant updatesUntil,
    Instant expiresAt,
    Instant refreshAfter,
    boolean offline,
    Revocations revocations,
    boolean clockTurnedBack,
    Problem problem) {

  /** The status of the licence in the product. */
  public enum Status {
    /** The store has not been read yet; nothing is granted. */
    STARTING,
    /** The token is valid; it determines features and limits. */
    LICENSED,
    /**
     * The token is still valid, but is not being renewed: the service refused to renew it, or
     * renewal is overdue because the service cannot be reached. All is granted until {@code
     * expiresAt}.
     */
    GRACE,
    /** The token has ended and the service could not be asked for a new one. Nothing is granted. */
    LAPSED,
    /**
     * The service refused, and there is no valid token (or the licence is revoked). Nothing is
     * granted.
     */
    REFUSED,
    /** There is no token. Nothing is granted. */
    UNLICENSED;

    /** The name in other languages and in documents: in lower case. */
    @Override
    public String toString() {
      return name().toLowerCase(Locale.ROOT);
    }
  }

  /** How fresh the revocation list is. */
  public enum Revocations {
    /** The list was checked within two check intervals. */
    CURRENT,
    /** The list was checked longer ago, or has ended. */
    STALE,
    /** There is no list. */
    UNKNOWN;

    @Override
    public String toString() {
      return name().toLowerCase(Locale.ROOT);
    }
  }

  /** The origin of a problem. */
  public enum Operation {
    ACTIVATE,
    ACTIVATE_OFFLINE,
    REFRESH,
    CHECK,
    MIGRATE,
    START_TRIAL,
    RELEASE,
    DEACTIVATE,
    CALL_HOME,
    STORE,
    INTERNAL;

    @Override
    public String toString() {
      return name().toLowerCase(Locale.ROOT);
    }
  }

  /**
   * The problem in the last contact of its kind, for a log or a support page; never needed for a
   * decision.
   *
   * @param code one of {@link Reasons}, or another refusal of the service
   */
  public record Problem(Operation operation, String code, String detail, Instant at) {}

  private record StatusWithReason(Status status, String reason) {}

  /** The state at the time that was last observed. */
  static LicenceState of(Held held, Attempts attempts) {
    StatusWithReason found = find(held, attempts);
    TokenClaims claims = held.claims();
    boolean isHeld = claims != null;
    return new LicenceState(
        found.status,
        grants(found.status),
        found.reason,
        isHeld ? claims.licenceId() : null,
        isHeld ? claims.activationId() : null,
        isHeld ? claims.planId() : null,
        isHeld ? claims.licenceStatus() : null,
        isHeld ? claims.seats() : null,
        isHeld && claims.updatesUntil() != null
            ? Instant.ofEpochMilli(claims.updatesUntil())
            : null,
        isHeld ? Instant.ofEpochMilli(claims.expiresAt()) : null,
        isHeld ? Instant.ofEpochMilli(claims.refreshAfter()) : null,
        isHeld && claims.offline(),
        freshness(held),
        held.time().turnedBack(),
        attempts.problem());
  }

  static Status statusOf(Held held, Attempts attempts) {
    return find(held, attempts).status;
  }

  /** Whether a status grants features and limits. */
  static boolean grants(Status status) {
    return status == Status.LICENSED || status == Status.GRACE;
  }

  /** The table of states: the first line that applies decides. */
  private static StatusWithReason find(Held held, Attempts attempts) {
    if (!attempts.isStoreRead()) return new StatusWithReason(Status.STARTING, null);
    String refusal = held.licence().refusal();
    String failure = attempts.failure();
    TokenClaims claims = held.claims();
    if (held.isRevoked() || Reasons.REVOKED.equals(refusal))
      return new StatusWithReason(Status.REFUSED, Reasons.REVOKED);
    if (claims == null && refusal != null) return new StatusWithReason(Status.REFUSED, refusal);
    if (claims == null)
      return new StatusWithReason(
          Status.UNLICENSED, failure != null ? failure : attempts.absence());
    long time = held.time().time();
    if (time >= claims.expiresAt() && refusal != null)
      return new StatusWithReason(Status.REFUSED, refusal);
    if (time >= claims.expiresAt())
      return new StatusWithReason(Status.LAPSED, failure != null ? failure : Reasons.TOKEN_EXPIRED);
    if (refusal != null) return new StatusWithReason(Status.GRACE, refusal);
    if (failure != null && time >= claims.refreshAfter())
      return new StatusWithReason(Status.GRACE, failure);
    return new StatusWithReason(Status.LICENSED, null);
  }

  private static Revocations freshness(Held held) {
    Held.HeldList list = held.revocations().list();
    if (list == null) return Revocations.UNKNOWN;
    long time = held.time().time();
    boolean isChecked =
        list.checkedAt() != null && time - list.checkedAt() <= 2 * held.claims().checkIntervalMs();
    return isChecked && !list.content().more() && time < list.content().expiresAt()
        ? Revocations.CURRENT
        : Revocations.STALE;
  }
}
