package licensing;

/**
 * A text of the service, or of a file, was refused. The code is a reason of a state, or one of the
 * two here.
 */
final class Untrusted extends Exception {
  /** The key that signed it is not among those given; perhaps it is a newer one. */
  static final String UNKNOWN_KEY = "unknown_key";

  /** Its signature or content is wrong. */
  static final String FORGED = "forged";

  private static final long serialVersionUID = 1;
  private final String code;

  Untrusted(String code) {
    super(code, null, false, false);
    this.code = code;
  }

  String code() {
    return code;
  }
}
