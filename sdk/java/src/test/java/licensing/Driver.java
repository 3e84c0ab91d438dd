package licensing;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Clock;
import java.time.Duration;
import java.time.Instant;
import java.time.InstantSource;
import java.util.ArrayList;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;

/**
 * The driver of {@code sdk/suite}: reads calls as JSON lines, and writes their outcomes. It ends at
 * the end of the input.
 */
public final class Driver {
  private static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);

  private record Product(LicenceClient client, SettableClock clock) {}

  private static final class SettableClock implements InstantSource {
    private volatile Instant fixed;

    @Override
    public Instant instant() {
      Instant now = fixed;
      return now == null ? Instant.now() : now;
    }
  }

  private final Map<String, Product> products = new ConcurrentHashMap<>();

  private Driver() {}

  public static void main(String[] arguments) throws Exception {
    Driver driver = new Driver();
    ExecutorService threads = Executors.newCachedThreadPool();
    BufferedReader lines =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      Map<String, Object> request = Json.parseObject(line);
      if ("exit".equals(request.get("call")))
        System.exit(((Long) request.get("argument")).intValue());
      // A call may follow at once that needs the client or the clock.
      if (List.of("new", "clock").contains(request.get("call"))) driver.answer(request);
      else threads.execute(() -> driver.answer(request));
    }
    threads.shutdown();
    threads.awaitTermination(60, TimeUnit.SECONDS);
    driver.products.values().forEach(product -> product.client.close());
  }

  private void answer(Map<String, Object> request) {
    Map<String, Object> answer = new LinkedHashMap<>();
    answer.put("id", request.get("id"));
    try {
      answer.putAll(outcome(request));
    } catch (Throwable failed) {
      answer.put("threw", String.valueOf(failed));
    }
    String line = Json.write(answer);
    synchronized (OUT) {
      OUT.println(line);
    }
  }

  private Map<String, Object> outcome(Map<String, Object> request) throws IOException {
    String call = (String) request.get("call");
    String name = (String) request.getOrDefault("client", "a");
    Object argument = request.get("argument");
    switch (call) {
      case "new":
        products.put(name, create(Json.object(request.get("options"))));
        return Map.of("ok", true);
      case "machine_fingerprint":
        return Map.of("text", fingerprint(Json.object(argument)));
      case "verify_webhook":
        return verify(Json.object(argument));
      default:
        return outcome(products.get(name), call, (String) argument);
    }
  }

  private static Map<String, Object> outcome(Product product, String call, String argument) {
    LicenceClient client = product.client;
    switch (call) {
      case "clock":
        product.clock.fixed = argument == null ? null : Instant.parse(argument);
        return Map.of("ok", true);
      case "close":
        client.close();
        return Map.of("ok", true);
      case "create_offline_request":
        return Map.of("text", client.createOfflineRequest());
      case "has_feature":
        return Map.of("value", client.hasFeature(argument));
      case "limit":
        return Map.of("value", client.limit(argument));
      case "covers":
        return Map.of("value", client.covers(argument));
      default:
        return Map.of("state", noted(call(client, call, argument)));
    }
  }

  private static Product create(Map<String, Object> options) {
    SettableClock clock = new SettableClock();
    LicenceClient.Builder builder = builder(options).clock(clock);
    if (options.get("store_file") instanceof String file)
      builder.store(new FileStore(Path.of(file)));
    if (options.get("timeout_ms") instanceof Number ms)
      builder.timeout(Duration.ofMillis(ms.longValue()));
    if (options.get("background") instanceof Boolean background) builder.background(background);
    return new Product(builder.build(), clock);
  }

  private static String fingerprint(Map<String, Object> argument) throws IOException {
    String appId = (String) argument.get("app_id");
    return argument.get("file") instanceof String file
        ? MachineFingerprint.of(appId, Path.of(file))
        : MachineFingerprint.of(appId);
  }

  static Map<String, Object> verify(Map<String, Object> argument) {
    byte[] body = Base64.getDecoder().decode((String) argument.get("body_base64"));
    List<String> secrets =
        argument.get("secrets") instanceof String one
            ? List.of(one)
            : Json.strings(argument.get("secrets"));
    Duration tolerance =
        argument.get("tolerance_seconds") instanceof Number seconds
            ? Duration.ofSeconds(seconds.longValue())
            : Duration.ofSeconds(300);
    InstantSource clock = Clock.systemUTC();
    if (argument.get("now") instanceof String text)
      clock = Clock.fixed(Instant.parse(text), java.time.ZoneOffset.UTC);
    if (argument.get("now") instanceof Number ms)
      clock = Clock.fixed(Instant.ofEpochMilli(ms.longValue()), java.time.ZoneOffset.UTC);
    try {
      Map<String, Object> headers = Json.object(argument.get("headers"));
      WebhookEvent event =
          headers == null
              ? Webhooks.verify(body, (String) argument.get("signature"), secrets, tolerance, clock)
              : Webhooks.verify(body, lists(headers), secrets, tolerance, clock);
      return Map.of("event", event.body());
    } catch (WebhookVerificationException refused) {
      return Map.of("reason", refused.reason().toString());
    }
  }

  private static Map<String, List<String>> lists(Map<String, Object> headers) {
    Map<String, List<String>> lists = new LinkedHashMap<>();
    headers.forEach(
        (name, value) -> {
          List<String> values = Json.strings(value);
          lists.put(name, values == null ? new ArrayList<>(List.of((String) value)) : values);
        });
    return lists;
  }

  /** A builder with the options of a vector. */
  static LicenceClient.Builder builder(Map<String, Object> fields) {
    LicenceClient.Builder builder =
        LicenceClient.builder()
            .baseUrl((String) fields.get("base_url"))
            .appId((String) fields.get("app_id"))
            .licenceKey((String) fields.get("licence_key"))
            .fingerprint((String) fields.get("fingerprint"))
            .host((String) fields.get("host"))
            .productVersion((String) fields.get("product_version"));
    Object rootKey = fields.get("root_key");
    if (rootKey instanceof List<?> keys) builder.rootKey(keys.toArray(String[]::new));
    else if (rootKey != null) builder.rootKey((String) rootKey);
    if (fields.get("nonce") instanceof String nonce) builder.nonce(() -> nonce);
    return builder;
  }

  static LicenceState call(LicenceClient client, String call, String argument) {
    return switch (call) {
      case "ready" -> client.ready();
      case "activate" -> client.activate();
      case "activate_offline" -> client.activateOffline(argument);
      case "start_trial" -> client.startTrial(argument);
      case "refresh" -> client.refresh();
      case "check" -> client.check();
      case "migrate" -> client.migrate(argument);
      case "release" -> client.release();
      case "deactivate" -> client.deactivate();
      case "call_home" -> client.callHome();
      case "state" -> client.state();
      default -> throw new IllegalArgumentException(call);
    };
  }

  /** The state with the names of the vectors. */
  static Map<String, Object> noted(LicenceState state) {
    Map<String, Object> fields = new LinkedHashMap<>();
    fields.put("status", state.status().toString());
    fields.put("usable", state.usable());
    fields.put("reason", state.reason());
    fields.put("licence_id", state.licenceId());
    fields.put("activation_id", state.activationId());
    fields.put("plan_id", state.planId());
    fields.put("licence_status", state.licenceStatus());
    fields.put("seats", state.seats());
    fields.put("updates_until", time(state.updatesUntil()));
    fields.put("expires_at", time(state.expiresAt()));
    fields.put("refresh_after", time(state.refreshAfter()));
    fields.put("offline", state.offline());
    fields.put("revocations", state.revocations().toString());
    fields.put("clock_turned_back", state.clockTurnedBack());
    fields.put("problem", state.problem() == null ? null : state.problem().code());
    return fields;
  }

  private static String time(Instant instant) {
    return instant == null ? null : Times.iso(instant.toEpochMilli());
  }
}
