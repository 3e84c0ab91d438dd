package licensing;

import java.util.Locale;

/** A delivery that must not be acted on: answer it with 400. */
public final class WebhookVerificationException extends Exception {
  private static final long serialVersionUID = 1;

  /** Why a delivery was refused. */
  public enum Reason {
    /** No secret was given, or an empty one. */
    NO_SECRET,
    /** A header is missing, or has no time or no signature of the right form. */
    MALFORMED_HEADER,
    /** Signed with another secret, or the body was changed (also by parsing and serialising it). */
    SIGNATURE_MISMATCH,
    /** Signed too long ago, or in the future: perhaps a replay. */
    TIMESTAMP_OUTSIDE_TOLERANCE,
    /** The signature is valid, but the body is not an event. */
    MALFORMED_BODY;

    /** The name in other languages and in documents: in lower case. */
    @Override
    public String toString() {
      return name().toLowerCase(Locale.ROOT);
    }
  }

  private final Reason reason;

  WebhookVerificationException(Reason reason, String message) {
    super(reason + ": " + message);
    this.reason = reason;
  }

  /** Why the delivery was refused. */
  public Reason reason() {
    return reason;
  }
}
