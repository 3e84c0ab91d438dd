package licensing;

import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.KeyFactory;
import java.security.NoSuchAlgorithmException;
import java.security.Signature;
import java.security.spec.X509EncodedKeySpec;
import java.util.Arrays;
import java.util.Base64;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;

/** A compact JWS. Only Ed25519 is accepted, whatever the header and the key claim. */
final class SignedText {
  /** What precedes the 32 bytes of an Ed25519 key in its X.509 form (RFC 8410). */
  private static final byte[] KEY_PREFIX = HexFormat.of().parseHex("302a300506032b6570032100");

  private SignedText() {}

  /** The payload, signed with one of the keys (JWKs: only {@code kid} and {@code x} are used). */
  static Map<String, Object> verify(String jws, List<Map<String, Object>> keys) throws Untrusted {
    String[] parts = jws.split("\\.", -1);
    Map<String, Object> header = decode(parts[0]);
    if (header == null) throw new Untrusted(Untrusted.FORGED);
    String kid = Json.string(header.get("kid"));
    Map<String, Object> key =
        keys.stream()
            .filter(each -> each.get("kid") instanceof String id && id.equals(kid))
            .findFirst()
            .orElse(null);
    if (key == null) throw new Untrusted(Untrusted.UNKNOWN_KEY);
    boolean isExpected =
        parts.length == 3 && "EdDSA".equals(header.get("alg")) && !header.containsKey("crit");
    if (!isExpected || !isSigned(parts, Json.string(key.get("x"))))
      throw new Untrusted(Untrusted.FORGED);
    Map<String, Object> payload = decode(parts[1]);
    if (payload == null) throw new Untrusted(Untrusted.FORGED);
    return payload;
  }

  private static boolean isSigned(String[] parts, String x) throws Untrusted {
    if (x == null) return false;
    try {
      byte[] raw = Base64.getUrlDecoder().decode(x);
      byte[] encoded = Arrays.copyOf(KEY_PREFIX, KEY_PREFIX.length + raw.length);
      System.arraycopy(raw, 0, encoded, KEY_PREFIX.length, raw.length);
      Signature signature = Signature.getInstance("Ed25519");
      signature.initVerify(
          KeyFactory.getInstance("Ed25519").generatePublic(new X509EncodedKeySpec(encoded)));
      signature.update((parts[0] + "." + parts[1]).getBytes(StandardCharsets.US_ASCII));
      return signature.verify(Base64.getUrlDecoder().decode(parts[2]));
    } catch (NoSuchAlgorithmException missing) {
      throw new Untrusted(Reasons.UNSUPPORTED_RUNTIME);
    } catch (GeneralSecurityException | IllegalArgumentException malformed) {
      return false;
    }
  }

  /** The id of the key that a JWS claims to be signed with; null if it names none. */
  static String keyId(String jws) {
    Map<String, Object> header = decode(jws.split("\\.", -1)[0]);
    return header == null ? null : Json.string(header.get("kid"));
  }

  /** The claims, not verified; empty if the text is no JWS. */
  static Map<String, Object> unverified(String jws) {
    String[] parts = jws.split("\\.", -1);
    Map<String, Object> payload = parts.length == 3 ? decode(parts[1]) : null;
    return payload == null ? Map.of() : payload;
  }

  private static Map<String, Object> decode(String part) {
    try {
      return Json.parseObject(
          new String(Base64.getUrlDecoder().decode(part), StandardCharsets.UTF_8));
    } catch (IllegalArgumentException malformed) {
      return null;
    }
  }
}
