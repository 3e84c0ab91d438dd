package licensing;

import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;

/**
 * The claims of a verified token.
 *
 * @param refreshAfter half of the life; of an offline token the end, as only another file renews it
 * @param updatesUntil the product may be updated to releases until this time; null: to all
 * @param offline whether the token came in a file, for a machine without a network
 * @param fingerprint that it is valid for; null if only the service knows it
 * @param nonce of the request that it answers; null if the request had none
 */
record TokenClaims(
    String licenceId,
    String activationId,
    String planId,
    String licenceStatus,
    long issuedAt,
    long expiresAt,
    long refreshAfter,
    long checkIntervalMs,
    Long seats,
    Long updatesUntil,
    Map<String, Object> entitlements,
    boolean offline,
    String fingerprint,
    String nonce) {
  private static final long MAX_CHECK_INTERVAL_MS = 86_400_000;
  private static final Pattern INTEGER = Pattern.compile("0|-?[1-9][0-9]{0,14}");

  /** Reads a token at a time: it must be authentic, and for this application and fingerprint. */
  static TokenClaims read(String jws, Keys keys, String appId, String fingerprint, long time)
      throws Untrusted {
    Map<String, Object> payload = SignedText.verify(jws, keys == null ? List.of() : keys.keys());
    TokenClaims claims = claimsIn(payload, appId);
    boolean isOurs =
        claims != null && (claims.fingerprint == null || claims.fingerprint.equals(fingerprint));
    if (!isOurs) throw new Untrusted(Untrusted.FORGED);
    if (!keys.verifyAt(time, claims)) throw new Untrusted(Untrusted.UNKNOWN_KEY);
    return claims;
  }

  /** The claims in an authentic payload; null if it is not a token of this application. */
  private static TokenClaims claimsIn(Map<String, Object> payload, String appId) {
    String licenceId = Json.string(payload.get("sub"));
    String activationId = Json.string(payload.get("act"));
    Object audience = payload.get("aud");
    boolean isOurs =
        appId.equals(audience) || (audience instanceof List<?> list && list.contains(appId));
    Long issuedAt = Json.unixTime(payload.get("iat"));
    Long expiresAt = Json.unixTime(payload.get("exp"));
    Long interval = Json.unixTime(payload.get("chk"));
    Map<String, Object> entitlements = Json.object(payload.get("entitlements"));
    if (licenceId == null
        || activationId == null
        || !isOurs
        || issuedAt == null
        || expiresAt == null) return null;
    if (interval == null || interval <= 0 || entitlements == null) return null;
    if (!entitlements.values().stream().allMatch(String.class::isInstance)) return null;
    boolean offline = Boolean.TRUE.equals(payload.get("offline"));
    return new TokenClaims(
        licenceId,
        activationId,
        Json.string(payload.get("plan_id")),
        Json.string(payload.get("status")),
        issuedAt,
        expiresAt,
        offline ? expiresAt : issuedAt + (expiresAt - issuedAt) / 2,
        Math.min(interval, MAX_CHECK_INTERVAL_MS),
        payload.get("seats") instanceof Number seats ? (Long) seats.longValue() : null,
        Json.unixTime(payload.get("upd")),
        entitlements,
        offline,
        Json.string(payload.get("fingerprint")),
        Json.string(payload.get("nonce")));
  }

  boolean feature(String key) {
    return "true".equals(entitlements.get(key));
  }

  long limit(String key) {
    return entitlements.get(key) instanceof String value && INTEGER.matcher(value).matches()
        ? Long.parseLong(value)
        : 0;
  }
}
