package licensing;

import java.util.List;
import java.util.Map;

/**
 * The public keys of the application.
 *
 * @param jws the signed set, an entry of {@code signed} of {@code jwks.json}; null if the client is
 *     unpinned, which believes the keys as they come
 * @param keys as JWKs
 * @param issuedAt when a root key signed the set; for an unpinned client when it was received
 * @param expiresAt {@link #NEVER} for an unpinned client
 */
record Keys(String jws, List<Map<String, Object>> keys, long issuedAt, long expiresAt) {
  static final long NEVER = Long.MAX_VALUE / 4;

  /**
   * The service signs key sets for 30 days. A set that lasts longer belongs to an offline file, and
   * counts only there.
   */
  private static final long MAX_LIFE_MS = 31L * 86_400_000;

  /** Reads an answer of {@code jwks.json}: the first set that may replace the current one. */
  static Keys read(Map<String, Object> body, Identity identity, Keys current, long time)
      throws Untrusted {
    List<Map<String, Object>> unsigned = body == null ? null : Json.objects(body.get("keys"));
    if (unsigned == null) throw new Untrusted(Reasons.UNEXPECTED_ANSWER);
    if (identity.rootKeys().isUnpinned()) return new Keys(null, unsigned, time, NEVER);
    String refusal = Reasons.UNTRUSTED_KEYS;
    List<?> signed = body.get("signed") instanceof List<?> list ? list : List.of();
    for (Object jws : signed) {
      if (!(jws instanceof String text)) continue;
      try {
        Keys keys = readSigned(text, identity);
        keys.requireReplaces(current, time);
        return keys;
      } catch (Untrusted refused) {
        if (!refused.code().equals(Reasons.UNTRUSTED_KEYS)) refusal = refused.code();
      }
    }
    throw new Untrusted(refusal);
  }

  private void requireReplaces(Keys current, long time) throws Untrusted {
    if (!isFromService()) throw new Untrusted(Reasons.UNTRUSTED_KEYS);
    if (expiresAt <= time) throw new Untrusted(Reasons.KEYS_EXPIRED);
    if (current != null && issuedAt < current.issuedAt) throw new Untrusted(Reasons.KEYS_OUTDATED);
  }

  /**
   * The keys in the store, verified like those of the service, but for their age; null if there are
   * none.
   */
  static Keys readStored(StoredRecord stored, Identity identity) {
    if (identity.rootKeys().isUnpinned())
      return stored.jwks() == null ? null : new Keys(null, stored.jwks(), stored.jwksAt(), NEVER);
    try {
      Keys keys = stored.signedKeys() == null ? null : readSigned(stored.signedKeys(), identity);
      return keys != null && keys.isFromService() ? keys : null;
    } catch (Untrusted refused) {
      return null;
    }
  }

  /** A set that a root key has signed. */
  static Keys readSigned(String jws, Identity identity) throws Untrusted {
    if (identity.rootKeys().isUnpinned()) throw new Untrusted(Reasons.UNTRUSTED_KEYS);
    Map<String, Object> payload;
    try {
      payload = SignedText.verify(jws, identity.rootKeys().keys());
    } catch (Untrusted refused) {
      boolean isUnsupported = refused.code().equals(Reasons.UNSUPPORTED_RUNTIME);
      throw isUnsupported ? refused : new Untrusted(Reasons.UNTRUSTED_KEYS);
    }
    List<Map<String, Object>> keys = Json.objects(payload.get("keys"));
    Long issuedAt = Json.unixTime(payload.get("iat"));
    Long expiresAt = Json.unixTime(payload.get("exp"));
    boolean isOurs = identity.appId().equals(payload.get("app_id"));
    if (!isOurs || keys == null || issuedAt == null || expiresAt == null)
      throw new Untrusted(Reasons.UNTRUSTED_KEYS);
    return new Keys(jws, keys, issuedAt, expiresAt);
  }

  private boolean isFromService() {
    return expiresAt - issuedAt <= MAX_LIFE_MS;
  }

  /**
   * Keys that have ended verify only tokens that have ended, so that these can be shown and
   * renewed.
   */
  boolean verifyAt(long time, TokenClaims claims) {
    return expiresAt > time || claims.expiresAt() <= time;
  }

  /**
   * Whether the key of these that signed a file was withdrawn: a later set of the service lacks it.
   */
  boolean areWithdrawn(String jws, Keys current) {
    if (current == null || current.issuedAt <= issuedAt) return false;
    String kid = SignedText.keyId(jws);
    return current.keys.stream()
        .noneMatch(key -> key.get("kid") instanceof String id && id.equals(kid));
  }
}
