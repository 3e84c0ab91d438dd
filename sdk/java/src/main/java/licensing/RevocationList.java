package licensing;

import java.util.List;
import java.util.Map;

/**
 * The content of a signed revocation list.
 *
 * @param since the version after which it lists additions; null for the whole list
 * @param more the list goes on after {@code version}: the rest is requested with it
 */
record RevocationList(
    String jws,
    long version,
    Long since,
    List<String> revoked,
    boolean more,
    long issuedAt,
    long expiresAt) {

  static RevocationList read(String jws, Keys keys, String appId) throws Untrusted {
    Map<String, Object> payload = SignedText.verify(jws, keys == null ? List.of() : keys.keys());
    Long version = Json.count(payload.get("version"));
    List<String> revoked = Json.strings(payload.get("revoked"));
    Long issuedAt = Json.unixTime(payload.get("iat"));
    Long expiresAt = Json.unixTime(payload.get("exp"));
    Object more = payload.getOrDefault("more", false);
    Long since = Json.count(payload.get("since"));
    boolean isSince = since != null || payload.get("since") == null;
    boolean isOurs = appId.equals(payload.get("app_id")) && more instanceof Boolean && isSince;
    if (!isOurs || version == null || revoked == null || issuedAt == null || expiresAt == null)
      throw new Untrusted(Untrusted.FORGED);
    // A list since version 0 is complete.
    Long additions = since == null || since == 0 ? null : since;
    return new RevocationList(
        jws, version, additions, revoked, (Boolean) more, issuedAt, expiresAt);
  }
}
