package licensing;

import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.time.Clock;
import java.time.Duration;
import java.time.InstantSource;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

/**
 * Verifies webhook deliveries in a vendor's backend. Signatures are compared in constant time.
 *
 * <pre>{@code
 * byte[] rawBody = exchange.getRequestBody().readAllBytes();
 * WebhookEvent event = Webhooks.verify(rawBody, exchange.getRequestHeaders(), List.of(secret));
 * if (event.type().equals("licence.revoked")) closeAccount(event.object().get("licence_id"));
 * }</pre>
 */
public final class Webhooks {
  private static final Duration TOLERANCE = Duration.ofSeconds(300);
  private static final Pattern STANDARD = Pattern.compile("(^|\\s)v1,");

  private Webhooks() {}

  /**
   * Verifies a delivery by all headers of its request. The endpoint can have the default signature
   * ({@code t=…,v1=…}) or that of Standard Webhooks ({@code v1,…}).
   *
   * @param rawBody the request's body exactly as received
   * @param headers names in any case
   * @param secrets the endpoint's secret ({@code whsec_…}); several while one is being rotated
   * @return the event; ignore types you do not know
   * @throws WebhookVerificationException if the delivery must not be trusted
   */
  public static WebhookEvent verify(
      byte[] rawBody, Map<String, List<String>> headers, List<String> secrets)
      throws WebhookVerificationException {
    return verify(rawBody, headers, secrets, TOLERANCE, Clock.systemUTC());
  }

  /**
   * Verifies a delivery by its {@code Webhook-Signature} header of the form {@code t=…,v1=…}.
   *
   * @param signature the header's value; null if the request has none
   * @throws WebhookVerificationException if the delivery must not be trusted
   * @see #verify(byte[], Map, List)
   */
  public static WebhookEvent verify(byte[] rawBody, String signature, List<String> secrets)
      throws WebhookVerificationException {
    return verify(rawBody, signature, secrets, TOLERANCE, Clock.systemUTC());
  }

  /**
   * The same with a tolerance: the largest difference between the time of the signature and the
   * current time, in either direction (300 seconds by default).
   */
  public static WebhookEvent verify(
      byte[] rawBody,
      Map<String, List<String>> headers,
      List<String> secrets,
      Duration tolerance,
      InstantSource clock)
      throws WebhookVerificationException {
    requireSecrets(secrets);
    Map<String, List<String>> given = new TreeMap<>(String.CASE_INSENSITIVE_ORDER);
    headers.forEach(
        (name, values) -> {
          if (name != null) given.put(name, values);
        });
    String signature = joined(given, "webhook-signature", " ");
    // A default signature begins with its time. The parts of a standard one are separated by
    // spaces.
    Signed signed =
        STANDARD.matcher(signature).find()
            ? standard(given, signature)
            : byDefault(joined(given, "webhook-signature", ","));
    return verify(rawBody, signed, secrets, tolerance, clock);
  }

  /** The same with a tolerance. */
  public static WebhookEvent verify(
      byte[] rawBody,
      String signature,
      List<String> secrets,
      Duration tolerance,
      InstantSource clock)
      throws WebhookVerificationException {
    requireSecrets(secrets);
    return verify(
        rawBody, byDefault(signature == null ? "" : signature), secrets, tolerance, clock);
  }

  private static void requireSecrets(List<String> secrets) throws WebhookVerificationException {
    if (secrets == null
        || secrets.isEmpty()
        || secrets.stream().anyMatch(each -> each == null || each.isEmpty()))
      throw new WebhookVerificationException(
          WebhookVerificationException.Reason.NO_SECRET, "no signing secret was given");
  }

  /**
   * The content of the headers of a delivery.
   *
   * @param prefix of the signed text, before the body
   * @param seconds when it was signed
   */
  private record Signed(String prefix, long seconds, List<byte[]> signatures, boolean isStandard) {}

  private static Signed byDefault(String header) throws WebhookVerificationException {
    List<String> times = new ArrayList<>();
    List<byte[]> signatures = new ArrayList<>();
    for (String part : header.split(",")) {
      String value = part.strip();
      if (value.startsWith("t=")) times.add(value.substring(2));
      if (value.matches("v1=[0-9a-f]{64}"))
        signatures.add(HexFormat.of().parseHex(value.substring(3)));
    }
    if (times.size() != 1 || !times.get(0).matches("[0-9]{1,15}") || signatures.isEmpty())
      throw malformedHeader("Webhook-Signature is not of the form t=…,v1=…");
    return new Signed(times.get(0) + ".", Long.parseLong(times.get(0)), signatures, false);
  }

  private static Signed standard(Map<String, List<String>> headers, String signature)
      throws WebhookVerificationException {
    String id = joined(headers, "webhook-id", " ");
    String time = joined(headers, "webhook-timestamp", " ");
    List<byte[]> signatures =
        Stream.of(signature.split("\\s+"))
            .filter(part -> part.startsWith("v1,"))
            .map(part -> decoded(part.substring(3)))
            .filter(bytes -> bytes.length == 32)
            .toList();
    if (id.isEmpty() || !time.matches("[0-9]{1,15}") || signatures.isEmpty())
      throw malformedHeader(
          "webhook-id, webhook-timestamp and webhook-signature are not those of Standard Webhooks");
    return new Signed(id + "." + time + ".", Long.parseLong(time), signatures, true);
  }

  private static WebhookVerificationException malformedHeader(String message) {
    return new WebhookVerificationException(
        WebhookVerificationException.Reason.MALFORMED_HEADER, message);
  }

  /** The values of a header that came several times, as one. */
  private static String joined(Map<String, List<String>> headers, String name, String separator) {
    List<String> values = headers.get(name);
    return values == null ? "" : String.join(separator, values);
  }

  private static WebhookEvent verify(
      byte[] rawBody, Signed signed, List<String> secrets, Duration tolerance, InstantSource clock)
      throws WebhookVerificationException {
    // Every pair is tried, so that the duration does not reveal which pair matches.
    boolean isSigned = false;
    for (String secret : secrets) {
      byte[] expected = hmac(keyOf(secret, signed.isStandard), signed.prefix, rawBody);
      for (byte[] signature : signed.signatures)
        isSigned |= MessageDigest.isEqual(expected, signature);
    }
    if (!isSigned)
      throw new WebhookVerificationException(
          WebhookVerificationException.Reason.SIGNATURE_MISMATCH,
          "no signature matches the raw body and a secret");
    double age = clock.millis() / 1000.0 - signed.seconds;
    if (!(Math.abs(age) <= tolerance.toMillis() / 1000.0))
      throw new WebhookVerificationException(
          WebhookVerificationException.Reason.TIMESTAMP_OUTSIDE_TOLERANCE,
          "signed %d s ago; the tolerance is %s in either direction"
              .formatted(Math.round(age), tolerance));
    return readEvent(rawBody);
  }

  /**
   * The key of a secret: its text, or for Standard Webhooks the bytes after {@code whsec_}; empty
   * if there are none.
   */
  private static byte[] keyOf(String secret, boolean isStandard) {
    if (!isStandard) return secret.getBytes(StandardCharsets.UTF_8);
    return decoded(secret.replaceFirst("^whsec_", ""));
  }

  private static byte[] decoded(String base64) {
    try {
      return base64.length() % 4 == 0 ? Base64.getDecoder().decode(base64) : new byte[0];
    } catch (IllegalArgumentException malformed) {
      return new byte[0];
    }
  }

  /** Empty without a key, so that it equals no signature. */
  private static byte[] hmac(byte[] key, String prefix, byte[] body) {
    if (key.length == 0) return key;
    try {
      Mac mac = Mac.getInstance("HmacSHA256");
      mac.init(new SecretKeySpec(key, "HmacSHA256"));
      mac.update(prefix.getBytes(StandardCharsets.UTF_8));
      return mac.doFinal(body);
    } catch (GeneralSecurityException missing) {
      throw new IllegalStateException("every Java runtime has HmacSHA256", missing);
    }
  }

  private static WebhookEvent readEvent(byte[] body) throws WebhookVerificationException {
    try {
      // Unlike the constructor of String, a decoder refuses bytes that are not UTF-8.
      String text = StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(body)).toString();
      Map<String, Object> event = Json.object(Json.parse(text));
      boolean isEvent =
          event != null
              && event.get("data") instanceof Map
              && event.get("id") instanceof String
              && event.get("type") instanceof String;
      if (isEvent)
        return new WebhookEvent((String) event.get("id"), (String) event.get("type"), event);
    } catch (CharacterCodingException | IllegalArgumentException malformed) {
      // The same as a body that is no event.
    }
    throw new WebhookVerificationException(
        WebhookVerificationException.Reason.MALFORMED_BODY, "the body is not the JSON of an event");
  }
}
