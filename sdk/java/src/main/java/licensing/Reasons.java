package licensing;

/**
 * Every reason of a state and every code of a problem, listed once. {@code sdk/README.md},
 * "Reasons", explains them. The service may add more refusals.
 */
public final class Reasons {
  private Reasons() {}

  // The service could not be reached, or gave no valid answer. A later try may succeed.
  public static final String UNREACHABLE = "unreachable";
  public static final String TIMEOUT = "timeout";
  public static final String UNAVAILABLE = "unavailable";
  public static final String RATE_LIMITED = "rate_limited";
  public static final String UNEXPECTED_ANSWER = "unexpected_answer";
  public static final String UNTRUSTED_SIGNATURE = "untrusted_signature";
  public static final String UNTRUSTED_KEYS = "untrusted_keys";
  public static final String KEYS_EXPIRED = "keys_expired";
  public static final String KEYS_OUTDATED = "keys_outdated";
  public static final String UNSUPPORTED_RUNTIME = "unsupported_runtime";

  // The service refused.
  public static final String SUSPENDED = "suspended";
  public static final String REVOKED = "revoked";
  public static final String EXPIRED = "expired";
  public static final String RETIRED = "retired";
  public static final String DOMAIN_NOT_ALLOWED = "domain_not_allowed";
  public static final String LIMIT_REACHED = "limit_reached";
  public static final String QUOTA_EXCEEDED = "quota_exceeded";
  public static final String NO_PLACE = "no_place";
  public static final String TRIAL_USED = "trial_used";
  public static final String UNKNOWN_PLAN = "unknown_plan";
  public static final String PLAN_ARCHIVED = "plan_archived";
  public static final String UNKNOWN_LICENCE_KEY = "unknown_licence_key";
  public static final String UNKNOWN_LEGACY_KEY = "unknown_legacy_key";
  public static final String ACTIVATION_FREED = "activation_freed";
  public static final String TOKEN_REJECTED = "token_rejected";
  public static final String INVALID_REQUEST = "invalid_request";

  // An offline licence file was refused.
  public static final String ROOT_KEY_REQUIRED = "root_key_required";
  public static final String FILE_MALFORMED = "file_malformed";
  public static final String FILE_OF_ANOTHER_APPLICATION = "file_of_another_application";
  public static final String FILE_OF_ANOTHER_MACHINE = "file_of_another_machine";
  public static final String FILE_EXPIRED = "file_expired";
  public static final String FILE_OUTDATED = "file_outdated";

  // There is no token, and the service was not asked.
  public static final String NOT_ACTIVATED = "not_activated";
  public static final String NO_LICENCE_KEY = "no_licence_key";
  public static final String DEACTIVATED = "deactivated";
  public static final String RELEASED = "released";
  public static final String FINGERPRINT_CHANGED = "fingerprint_changed";
  public static final String LICENCE_KEY_CHANGED = "licence_key_changed";
  public static final String STORE_CORRUPT = "store_corrupt";

  /** The token has ended, and no other reason is known. */
  public static final String TOKEN_EXPIRED = "token_expired";

  // These are only codes of problems.
  public static final String LIST_EXPIRED = "list_expired";
  public static final String LIST_OUTDATED = "list_outdated";
  public static final String LIST_GAP = "list_gap";
  public static final String STORE_FAILED = "store_failed";
  public static final String UNEXPECTED_ERROR = "unexpected_error";
}
