package licensing;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.KeyPair;
import java.security.KeyPairGenerator;
import java.security.Signature;
import java.util.Arrays;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/** The product endpoints over HTTP, with keys and data of one application in memory. */
final class FakeService implements AutoCloseable {
  static final String APP = "app_01kahz5k00e000000000000001";
  static final String KEY = "7ZK2M-4QX9T-B1N8V-WC3HD-60RPF";

  /** Answers instead of the service. */
  interface Instead {
    void handle(HttpExchange exchange) throws IOException;
  }

  final List<String> requests = new CopyOnWriteArrayList<>();
  final Set<String> activations = ConcurrentHashMap.newKeySet();
  volatile Instead instead;
  volatile boolean isRevoked = false;
  volatile long tokenLifeSeconds = 86_400;
  volatile long checkIntervalSeconds = 900;

  private final HttpServer server;
  private final ExecutorService threads = Executors.newCachedThreadPool();
  private final KeyPair root = newKey();
  private final KeyPair signer = newKey();

  FakeService() throws IOException {
    server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
    server.setExecutor(threads);
    server.createContext("/", this::answer);
    server.start();
  }

  String baseUrl() {
    return "http://127.0.0.1:" + server.getAddress().getPort();
  }

  String rootKey() {
    return "lrk_" + x(root);
  }

  /** A client of this service. */
  LicenceClient.Builder client() {
    return LicenceClient.builder()
        .baseUrl(baseUrl())
        .appId(APP)
        .rootKey(rootKey())
        .licenceKey(KEY)
        .fingerprint("machine-1")
        .host("app.example.com")
        .productVersion("4.2.0")
        .background(false);
  }

  @Override
  public void close() {
    server.stop(0);
    threads.shutdownNow();
  }

  private void answer(HttpExchange exchange) throws IOException {
    try (exchange) {
      String request = exchange.getRequestMethod() + " " + exchange.getRequestURI().getPath();
      requests.add(request);
      if (instead != null) {
        instead.handle(exchange);
        return;
      }
      String body = new String(exchange.getRequestBody().readAllBytes(), StandardCharsets.UTF_8);
      answer(exchange, request, Json.parseObject(body));
    } catch (GeneralSecurityException failed) {
      throw new IOException(failed);
    }
  }

  private void answer(HttpExchange exchange, String request, Map<String, Object> body)
      throws IOException, GeneralSecurityException {
    if (request.equals("POST /v1/activations")) {
      if (!KEY.equals(body.get("licence_key"))) refuse(exchange, 404, "not_found", null);
      else if (isRevoked) refuse(exchange, 403, "licence_refused", "revoked");
      else {
        activations.add("act_1");
        reply(exchange, 200, grant(body));
      }
    } else if (request.endsWith("/refresh")) {
      if (isRevoked) refuse(exchange, 403, "licence_refused", "revoked");
      else reply(exchange, 200, grant(body));
    } else if (request.equals("DELETE /v1/activations/act_1")) {
      boolean isKnown = activations.remove("act_1");
      if (isKnown) exchange.sendResponseHeaders(204, -1);
      else refuse(exchange, 404, "not_found", null);
    } else if (request.endsWith("/revocations")) {
      List<String> revoked = isRevoked ? List.of("lic_1") : List.of();
      Map<String, Object> list = times(86_400);
      list.put("app_id", APP);
      list.put("version", isRevoked ? 2 : 1);
      list.put("revoked", revoked);
      reply(exchange, 200, Map.of("signature", sign(signer, "signer", list)));
    } else if (request.endsWith("/jwks.json")) {
      Map<String, Object> set = times(30 * 86_400);
      List<Object> keys =
          List.of(Map.of("kty", "OKP", "crv", "Ed25519", "kid", "signer", "x", x(signer)));
      set.put("app_id", APP);
      set.put("keys", keys);
      reply(exchange, 200, Map.of("keys", keys, "signed", List.of(sign(root, rootKey(), set))));
    } else {
      refuse(exchange, 404, "not_found", null);
    }
  }

  private Map<String, Object> grant(Map<String, Object> body) throws GeneralSecurityException {
    Map<String, Object> claims = times(tokenLifeSeconds);
    claims.put("sub", "lic_1");
    claims.put("act", "act_1");
    claims.put("aud", APP);
    claims.put("chk", checkIntervalSeconds);
    claims.put("entitlements", Map.of("export_pdf", "true", "max_projects", "25"));
    claims.put("nonce", body.get("nonce"));
    Map<String, Object> answer = new LinkedHashMap<>();
    answer.put("activation_id", "act_1");
    answer.put("licence_id", "lic_1");
    answer.put("token", sign(signer, "signer", claims));
    return answer;
  }

  private static Map<String, Object> times(long seconds) {
    long now = System.currentTimeMillis() / 1000;
    Map<String, Object> claims = new LinkedHashMap<>();
    claims.put("iat", now);
    claims.put("exp", now + seconds);
    return claims;
  }

  static void reply(HttpExchange exchange, int status, Object json) throws IOException {
    byte[] bytes = Json.write(json).getBytes(StandardCharsets.UTF_8);
    exchange.getResponseHeaders().set("content-type", "application/json");
    exchange.sendResponseHeaders(status, bytes.length);
    exchange.getResponseBody().write(bytes);
  }

  private static void refuse(HttpExchange exchange, int status, String code, String reason)
      throws IOException {
    Map<String, Object> problem = new LinkedHashMap<>();
    problem.put("status", status);
    problem.put("code", code);
    if (reason != null) problem.put("reason", reason);
    reply(exchange, status, problem);
  }

  static KeyPair newKey() {
    try {
      return KeyPairGenerator.getInstance("Ed25519").generateKeyPair();
    } catch (GeneralSecurityException missing) {
      throw new AssertionError(missing);
    }
  }

  private static String x(KeyPair pair) {
    byte[] encoded = pair.getPublic().getEncoded();
    byte[] raw = Arrays.copyOfRange(encoded, encoded.length - 32, encoded.length);
    return Base64.getUrlEncoder().withoutPadding().encodeToString(raw);
  }

  static String sign(KeyPair pair, String kid, Map<String, Object> payload)
      throws GeneralSecurityException {
    Map<String, Object> header = new LinkedHashMap<>();
    header.put("alg", "EdDSA");
    header.put("kid", kid);
    String text = part(Json.write(header)) + "." + part(Json.write(payload));
    Signature signature = Signature.getInstance("Ed25519");
    signature.initSign(pair.getPrivate());
    signature.update(text.getBytes(StandardCharsets.US_ASCII));
    return text + "." + Base64.getUrlEncoder().withoutPadding().encodeToString(signature.sign());
  }

  private static String part(String json) {
    return Base64.getUrlEncoder()
        .withoutPadding()
        .encodeToString(json.getBytes(StandardCharsets.UTF_8));
  }
}
