package licensing;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.DynamicTest.dynamicTest;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.time.InstantSource;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.stream.Stream;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;
import licensing.WebhookVerificationException.Reason;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;

class WebhooksTest {
  static final String SECRET = "whsec_3mTqE8v5k0bN7cXyRz1wLhJdUoPsAfGiQe2M9nB4tVu";
  private static final String OTHER = "whsec_Zt8KpW2mC6xRj4YvB1nQe7LsHaUdFgOi5M3kTzVwXyN";
  private static final String STANDARD =
      "whsec_"
          + Base64.getEncoder()
              .encodeToString(
                  new byte[] {
                    1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22,
                    23, 24, 25, 26, 27, 28, 29, 30, 31, 32
                  });
  private static final long NOW = 1_795_255_200;
  private static final String BODY =
      "{\"id\":\"evt_1\",\"type\":\"licence.revoked\",\"sequence\":7,\"data\":{\"object\":{\"licence_id\":\"lic_1\"}}} ";
  private static final InstantSource CLOCK = () -> Instant.ofEpochSecond(NOW);
  private static final Duration TOLERANCE = Duration.ofSeconds(300);

  private static byte[] hmac(byte[] key, String prefix, byte[] body) {
    try {
      Mac mac = Mac.getInstance("HmacSHA256");
      mac.init(new SecretKeySpec(key, "HmacSHA256"));
      mac.update(prefix.getBytes(StandardCharsets.UTF_8));
      return mac.doFinal(body);
    } catch (java.security.GeneralSecurityException missing) {
      throw new AssertionError(missing);
    }
  }

  private static String hex(String body, String secret, long time) {
    byte[] key = secret.getBytes(StandardCharsets.UTF_8);
    return HexFormat.of().formatHex(hmac(key, time + ".", body.getBytes(StandardCharsets.UTF_8)));
  }

  static String header(String body, String secret, long time) {
    return "t=" + time + ",v1=" + hex(body, secret, time);
  }

  private static Map<String, List<String>> standard(String body, String secret, long time) {
    byte[] key = Base64.getDecoder().decode(secret.substring(6));
    byte[] hash = hmac(key, "evt_1." + time + ".", body.getBytes(StandardCharsets.UTF_8));
    return Map.of(
        "Webhook-Id", List.of("evt_1"),
        "Webhook-Timestamp", List.of(String.valueOf(time)),
        "Webhook-Signature", List.of("v1a,other v1," + Base64.getEncoder().encodeToString(hash)));
  }

  private static WebhookEvent verify(String body, String header, String... secrets)
      throws WebhookVerificationException {
    return Webhooks.verify(
        body.getBytes(StandardCharsets.UTF_8), header, List.of(secrets), TOLERANCE, CLOCK);
  }

  private static WebhookEvent verify(
      String body, Map<String, List<String>> headers, String... secrets)
      throws WebhookVerificationException {
    return Webhooks.verify(
        body.getBytes(StandardCharsets.UTF_8), headers, List.of(secrets), TOLERANCE, CLOCK);
  }

  private static void assertRefused(
      Reason reason, org.junit.jupiter.api.function.Executable attempt) {
    assertEquals(reason, assertThrows(WebhookVerificationException.class, attempt).reason());
  }

  @TestFactory
  Stream<DynamicTest> vectors() {
    return Vectors.deliveries().stream()
        .map(
            delivery -> dynamicTest((String) delivery.get("name"), () -> assertDelivery(delivery)));
  }

  private static void assertDelivery(Map<String, Object> delivery) {
    Map<String, Object> argument = new HashMap<>(delivery);
    if (delivery.get("body") instanceof String text)
      argument.put(
          "body_base64", Base64.getEncoder().encodeToString(text.getBytes(StandardCharsets.UTF_8)));
    argument.put("now", delivery.get("clock"));
    Map<String, Object> outcome = Driver.verify(argument);
    assertEquals(delivery.get("reason"), outcome.get("reason"));
    if (delivery.get("reason") == null)
      assertEquals(Json.parse((String) delivery.get("body")), outcome.get("event"));
  }

  @Test
  @DisplayName("verifies a signature that openssl made")
  void openssl() throws Exception {
    String raw =
        "{\"id\":\"evt_1\",\"type\":\"webhook.test\",\"data\":{\"object\":{\"ping\":true}}}";
    String v1 = "1b152e1230afa0f32baa8770be2043264b17a41c8ffff8f2d36b2fb8b532da7b";
    WebhookEvent event = verify(raw, "t=" + NOW + ",v1=" + v1, "whsec_test");
    assertEquals(
        List.of("evt_1", "webhook.test", true),
        List.of(event.id(), event.type(), event.object().get("ping")));
    assertEquals(Json.parse(raw), event.body());
  }

  @Test
  @DisplayName(
      "accepts each of several secrets and signatures, spaces, other schemes, and headers that came apart")
  void accepted() throws Exception {
    String good = header(BODY, SECRET, NOW);
    assertEquals("licence.revoked", verify(BODY, good, OTHER, SECRET).type());
    String v1 = hex(BODY, SECRET, NOW);
    verify(BODY, "t=" + NOW + ",v1=" + hex(BODY, OTHER, NOW) + ",v1=" + v1, SECRET);
    verify(BODY, "v0=abc," + good + ",v2=def", SECRET);
    verify(BODY, "t=" + NOW + ", v1=" + v1, SECRET);
    verify(
        BODY,
        Map.of(
            "webhook-signature", List.of("t=" + NOW, "v1=" + v1), "webhook-id", List.of("evt_1")),
        SECRET);
    // The base64 of a signature has any characters.
    for (long time = NOW - 200; time < NOW; time++)
      verify(BODY, standard(BODY, STANDARD, time), OTHER, STANDARD);
    Map<String, List<String>> twice = new HashMap<>(standard(BODY, STANDARD, NOW));
    twice.put("Webhook-Signature", List.of("v1,bad", twice.get("Webhook-Signature").get(0)));
    verify(BODY, twice, STANDARD);
  }

  @Test
  @DisplayName(
      "refuses a body in which any one bit was changed, and throws only its own exception for any input")
  void anyInput() {
    Random random = new Random(1);
    byte[] body = BODY.getBytes(StandardCharsets.UTF_8);
    List<String> reasons = new ArrayList<>();
    for (int i = 0; i < 500; i++) {
      byte[] changed = body.clone();
      changed[random.nextInt(body.length)] ^= (byte) (1 << random.nextInt(8));
      String good = header(BODY, SECRET, NOW);
      assertRefused(
          Reason.SIGNATURE_MISMATCH,
          () -> Webhooks.verify(changed, good, List.of(SECRET), TOLERANCE, CLOCK));
      byte[] noise = new byte[random.nextInt(60)];
      random.nextBytes(noise);
      String text = new String(noise, StandardCharsets.ISO_8859_1);
      Map<String, List<String>> headers =
          Map.of(
              "webhook-timestamp",
              Arrays.asList(text),
              "webhook-id",
              List.of(text),
              "webhook-signature",
              List.of(text));
      reasons.add(
          assertThrows(
                  WebhookVerificationException.class,
                  () -> Webhooks.verify(noise, text, List.of(SECRET)))
              .reason()
              .toString());
      reasons.add(
          assertThrows(
                  WebhookVerificationException.class,
                  () -> Webhooks.verify(noise, headers, List.of(SECRET)))
              .reason()
              .toString());
    }
    assertEquals(List.of("malformed_header"), reasons.stream().distinct().toList());
  }
}
