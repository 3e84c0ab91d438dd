package licensing;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.DynamicContainer.dynamicContainer;
import static org.junit.jupiter.api.DynamicTest.dynamicTest;

import java.io.IOException;
import java.time.Duration;
import java.time.Instant;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.ReentrantLock;
import java.util.stream.Stream;
import licensing.ScriptedService.Reply;
import licensing.ScriptedService.Seen;
import org.junit.jupiter.api.DynamicNode;
import org.junit.jupiter.api.TestFactory;

class VectorsTest {
  @TestFactory
  Stream<DynamicNode> vectors() throws IOException {
    return Vectors.byFile().entrySet().stream()
        .map(
            file ->
                dynamicContainer(file.getKey(), file.getValue().stream().map(VectorsTest::test)));
  }

  private static DynamicNode test(Map<String, Object> vector) {
    return dynamicTest((String) vector.get("name"), () -> new Play(vector).play());
  }

  /** One vector, with its service, store and clock. */
  private static final class Play {
    private final Map<String, Object> vector;
    private final AtomicReference<Instant> clock = new AtomicReference<>();
    private final ReentrantLock reading = new ReentrantLock();
    private final LicenceStore store;
    private Iterator<Map<String, Object>> answers;
    private final ScriptedService service =
        new ScriptedService(seen -> answers.hasNext() ? reply(answers.next()) : null);

    Play(Map<String, Object> vector) {
      this.vector = vector;
      this.store = storeOf(vector, reading);
      clock.set(Instant.parse((String) vector.get("clock")));
    }

    void play() throws Exception {
      if (Boolean.TRUE.equals(vector.get("refused"))) {
        assertThrows(IllegalArgumentException.class, () -> start(Map.of()));
        return;
      }
      LicenceClient client = start(Map.of());
      int number = 0;
      for (Map<String, Object> step : Json.objects(vector.get("steps"))) {
        if (step.get("clock") instanceof String time) clock.set(Instant.parse(time));
        if (step.containsKey("store")) store.write(textOf(step.get("store")));
        if (step.containsKey("restart")) {
          client.close();
          client = start(Vectors.member(step, "restart"));
        }
        play(step, client, "step " + ++number);
      }
      client.close();
    }

    private void play(Map<String, Object> step, LicenceClient client, String name) {
      List<Map<String, Object>> expected = Json.objects(step.getOrDefault("answers", List.of()));
      answers = expected.iterator();
      service.requests.clear();
      String call = (String) step.getOrDefault("call", "state");
      // The questions of a step without a call are answered before the store is read.
      boolean isQuestion = !step.containsKey("call");
      if (isQuestion) reading.lock();
      try {
        compare(step, client, name, call, expected);
      } finally {
        if (isQuestion) reading.unlock();
      }
    }

    private void compare(
        Map<String, Object> step,
        LicenceClient client,
        String name,
        String call,
        List<Map<String, Object>> expected) {
      LicenceState state = Driver.call(client, call, (String) step.get("argument"));
      assertSubset(step.get("state"), Driver.noted(state), name);
      assertEquals(
          expected.stream().map(answer -> answer.get("request")).toList(),
          service.requests.stream().map(Seen::request).toList(),
          name);
      for (int i = 0; i < expected.size(); i++)
        assertRequest(expected.get(i), service.requests.get(i), name);
      each(step, "features", (key, value) -> assertEquals(value, client.hasFeature(key), key));
      each(step, "limits", (key, value) -> assertEquals(value, client.limit(key), key));
      each(step, "covers", (time, value) -> assertEquals(value, client.covers(time), time));
      if (step.containsKey("offline_request"))
        assertEquals(step.get("offline_request"), Json.parse(client.createOfflineRequest()), name);
    }

    private static void each(
        Map<String, Object> step,
        String name,
        java.util.function.BiConsumer<String, Object> assertion) {
      if (step.containsKey(name)) Vectors.member(step, name).forEach(assertion);
    }

    private LicenceClient start(Map<String, Object> fields) {
      Map<String, Object> given = new HashMap<>(Vectors.client());
      if (vector.containsKey("client")) given.putAll(Vectors.member(vector, "client"));
      given.putAll(fields);
      boolean mustWait = Json.write(vector).contains("\"never\"");
      return Driver.builder(given)
          .store(store)
          .httpClient(service)
          .clock(clock::get)
          .timeout(Duration.ofMillis(mustWait ? 500 : 30_000))
          .background(false)
          .build();
    }
  }

  private static Reply reply(Map<String, Object> answer) {
    Map<String, Object> response = Vectors.member(answer, "response");
    if (response.get("fails") instanceof String fails) return new Reply(0, Map.of(), "", fails);
    Map<String, String> headers = new HashMap<>();
    if (response.containsKey("headers"))
      Vectors.member(response, "headers")
          .forEach((name, value) -> headers.put(name, (String) value));
    String text =
        response.containsKey("json")
            ? Json.write(response.get("json"))
            : (String) response.getOrDefault("text", "");
    return new Reply(((Long) response.get("status")).intValue(), headers, text, null);
  }

  private static void assertRequest(Map<String, Object> expected, Seen seen, String name) {
    if (expected.containsKey("with_headers"))
      Vectors.member(expected, "with_headers")
          .forEach(
              (header, value) ->
                  assertEquals(value, seen.headers().firstValue(header).orElse(null), name));
    if (expected.get("without_headers") instanceof List<?> absent)
      absent.forEach(
          header -> assertFalse(seen.headers().firstValue((String) header).isPresent(), name));
    if (expected.containsKey("with_json"))
      assertSubset(expected.get("with_json"), seen.json(), name);
  }

  /** The fields of the one have the same values in the other. */
  private static void assertSubset(Object expected, Map<String, Object> seen, String name) {
    Map<String, Object> compared = new HashMap<>();
    Json.object(expected).keySet().forEach(key -> compared.put(key, seen.get(key)));
    assertEquals(expected, compared, name);
    assertTrue(seen.keySet().containsAll(compared.keySet()), name);
  }

  /** The store of a vector, which may fail, and is read only while nobody holds the lock. */
  private static LicenceStore storeOf(Map<String, Object> vector, ReentrantLock reading) {
    Object content = vector.get("store");
    LicenceStore good = LicenceStore.inMemory(content == null ? null : textOf(content));
    Object fails = vector.get("store_fails");
    return new LicenceStore() {
      @Override
      public String read() throws Exception {
        reading.lock();
        reading.unlock();
        if ("never".equals(fails)) new CountDownLatch(1).await();
        if ("read".equals(fails)) throw new IOException("the disk is broken");
        return good.read();
      }

      @Override
      public void write(String text) throws Exception {
        if ("never".equals(fails)) new CountDownLatch(1).await();
        if ("write".equals(fails)) throw new IOException("the disk is broken");
        good.write(text);
      }
    };
  }

  private static String textOf(Object content) {
    return content instanceof String text ? text : Json.write(content);
  }
}
