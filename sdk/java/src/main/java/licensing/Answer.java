package licensing;

import java.util.Map;
import licensing.Attempts.Trouble;

/** The outcome of a request. */
sealed interface Answer {
  /**
   * @param body the members of the JSON object; null if the answer has none
   */
  record Success(int status, Map<String, Object> body, String etag) implements Answer {}

  /** The service refused the call, in its error format. */
  record Refusal(int status, String code, String reason, String detail) implements Answer {}

  /** No answer, or not a valid one. */
  record Failure(String reason, String detail, Long retryAfterMs) implements Answer {
    Failure(String reason, String detail) {
      this(reason, detail, null);
    }
  }

  /** A text of the answer's body; null if this is no success, or has no such text. */
  default String text(String name) {
    return this instanceof Success success && success.body != null
        ? Json.string(success.body.get(name))
        : null;
  }

  /** The service has freed what was to be freed, or does not know it any more. */
  default boolean isGone() {
    return this instanceof Success || (this instanceof Refusal refusal && refusal.status == 404);
  }

  /** This failure; any other answer could be read, but is not valid. */
  default Failure asFailure() {
    if (this instanceof Failure failure) return failure;
    String content =
        this instanceof Refusal refusal
            ? "status " + refusal.status + ", " + refusal.code + ": " + refusal.detail
            : "status " + ((Success) this).status + ", an unexpected body";
    return new Failure(Reasons.UNEXPECTED_ANSWER, content);
  }

  default Trouble asTrouble() {
    Failure failure = asFailure();
    return new Trouble(failure.reason, failure.detail, failure.retryAfterMs);
  }
}
