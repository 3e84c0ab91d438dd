package licensing;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Instant;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import licensing.Attempts.Backoff;
import licensing.Attempts.Kind;
import licensing.Background.DueTimes;
import licensing.LicenceState.Revocations;
import licensing.LicenceState.Status;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;

class BackgroundTest {
  private static final long START = Instant.parse("2026-11-21T10:00:00Z").toEpochMilli();
  private static final long MINUTE = 60_000;
  private static final long HOUR = 60 * MINUTE;
  private static final Attempts READ = Attempts.NONE.withStoreRead();

  /** What is known after the activation of the vectors, at a time. */
  private static Held activated(long now) {
    Map<String, Object> options = Vectors.client();
    String root = (String) options.get("root_key");
    Identity identity =
        new Identity(
            (String) options.get("app_id"),
            (String) options.get("fingerprint"),
            null,
            RootKeys.read(List.of(root)));
    Held empty = Held.empty(null, START);
    Held found =
        StoredRecord.read(Json.write(Vectors.value("store_with_list_10")), empty, identity).held();
    return empty.absorb(found).observed(now);
  }

  @Test
  @DisplayName(
      "the list is due within its interval, up to a tenth earlier; the token between half and six tenths of its life")
  void due() {
    for (double jitter : new double[] {0, 0.5, 0.999}) {
      DueTimes due = DueTimes.of(activated(START + 20 * MINUTE), READ, true, jitter);
      long checkedAt = START + 15 * MINUTE;
      assertEquals(checkedAt + (long) (15 * MINUTE * (1 - jitter / 10)), due.list());
      assertEquals(START + 12 * HOUR + (long) (2.4 * HOUR * jitter), due.token());
      assertEquals(START + 24 * HOUR, due.tokenEnd());
    }
  }

  @Test
  @DisplayName(
      "after the end of the token only a token is due; after a turned clock a token is due at once")
  void ends() {
    DueTimes ended = DueTimes.of(activated(START + 25 * HOUR), READ, true, 0);
    assertNull(ended.list());
    assertTrue(ended.isTokenDue());
    DueTimes turned = DueTimes.of(activated(START + HOUR).observed(START), READ, true, 0);
    assertTrue(turned.isTokenDue());
  }

  @Test
  @DisplayName(
      "an activation that failed is due when its backoff ends; one that was refused, or was not asked for, is not")
  void activation() {
    Held empty = Held.empty("key", START);
    Backoff backoff = Backoff.NONE.afterFailure(START, 0, null, Backoff.MAX_DELAY_MS);
    Attempts failed = READ.withFailure(Reasons.UNREACHABLE).withBackoff(Kind.TOKEN, backoff);
    assertEquals(START + 30_000, DueTimes.of(empty, failed, true, 0).token());
    assertNull(DueTimes.of(empty, failed, false, 0).next());
    assertNull(DueTimes.of(empty.refusal(Reasons.EXPIRED), failed, true, 0).next());
    assertNull(DueTimes.of(empty, READ, true, 0).next());
  }

  @Test
  @DisplayName(
      "the pace doubles to an hour, is shortened by up to half, obeys Retry-After, and a wrong clock ends it")
  void pace() {
    Backoff backoff = Backoff.NONE;
    long[] minutes = {
      30_000, MINUTE, 2 * MINUTE, 4 * MINUTE, 8 * MINUTE, 16 * MINUTE, 32 * MINUTE, HOUR, HOUR
    };
    for (long wait : minutes) {
      assertEquals(wait, backoff.afterFailure(0, 0, null, Backoff.MAX_DELAY_MS).retryAt());
      backoff = backoff.afterFailure(0, 1, null, Backoff.MAX_DELAY_MS);
      assertEquals(wait / 2, backoff.retryAt());
    }
    Backoff asked = Backoff.NONE.afterFailure(START, 0, 600_000L, Backoff.MAX_DELAY_MS);
    assertTrue(asked.isBlocked(START + 599_999));
    assertEquals(START + 600_000, asked.earliest(START, START));
    assertEquals(START - 2 * HOUR, asked.earliest(START - 2 * HOUR, START - 2 * HOUR));
  }

  @Test
  @DisplayName(
      "the client checks the list, renews its token, tells listeners of the end, and learns of a revocation by itself")
  void works() throws Exception {
    try (FakeService service = new FakeService()) {
      service.tokenLifeSeconds = 6;
      BlockingQueue<LicenceState> heard = new LinkedBlockingQueue<>();
      try (LicenceClient licence = service.client().background(true).build()) {
        licence.onChange(heard::add);
        licence.activate();
        Instant first = licence.state().expiresAt();
        await(() -> licence.state().revocations() == Revocations.CURRENT);
        await(() -> licence.state().expiresAt().isAfter(first));
        service.instead = exchange -> exchange.sendResponseHeaders(503, -1);
        await(() -> licence.state().status() == Status.GRACE);
        LicenceState ended = heard.poll(1, TimeUnit.SECONDS);
        while (ended.status() != Status.LAPSED) ended = heard.poll(10, TimeUnit.SECONDS);
        assertEquals("unavailable", ended.reason());
      }
    }
  }

  @Test
  @DisplayName(
      "hasFeature starts the client, and renews a token that ended while the machine slept")
  void wakes() throws Exception {
    LicenceStore store = LicenceStore.inMemory();
    Queue<Status> heard = new ConcurrentLinkedQueue<>();
    long[] slept = {0};
    try (FakeService service = new FakeService()) {
      service.client().store(store).build().activate();
      try (LicenceClient licence =
          service
              .client()
              .store(store)
              .background(true)
              .clock(() -> Instant.now().plusMillis(slept[0]))
              .build()) {
        licence.onChange(state -> heard.add(state.status()));
        assertEquals(0, licence.limit("max_projects"));
        await(() -> licence.limit("max_projects") == 25);
        int asked = service.requests.size();
        slept[0] = 30 * HOUR;
        assertEquals(0, licence.limit("max_projects"));
        await(() -> licence.limit("max_projects") == 25);
        assertTrue(
            service
                .requests
                .subList(asked, service.requests.size())
                .contains("POST /v1/activations/act_1/refresh"));
        service.isRevoked = true;
        licence.check();
        assertEquals("revoked", licence.state().reason());
        assertTrue(heard.contains(Status.REFUSED));
      }
    }
  }

  private static void await(BooleanSupplier isTrue) throws InterruptedException {
    long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(15);
    while (!isTrue.getAsBoolean()) {
      assertTrue(System.nanoTime() < end, "it does not happen");
      Thread.sleep(10);
    }
  }
}
