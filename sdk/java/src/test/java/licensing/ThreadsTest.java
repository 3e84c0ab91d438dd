package licensing;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTimeoutPreemptively;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.time.InstantSource;
import java.util.ArrayList;
import java.util.List;
import java.util.Queue;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.Collectors;
import licensing.LicenceState.Status;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class ThreadsTest {
  @TempDir Path folder;

  @Test
  @DisplayName(
      "16 threads that call everything at once see only states of the table, and nothing throws")
  void stress() throws Exception {
    try (FakeService service = new FakeService();
        LicenceClient licence =
            service.client().store(new FileStore(folder.resolve("licence.json"))).build()) {
      licence.activate();
      Queue<LicenceState> seen = new ConcurrentLinkedQueue<>();
      licence.onChange(seen::add);
      int rounds = "1".equals(System.getenv("TEST_FULL")) ? 2_000 : 100;
      inThreads(
          16,
          () -> {
            for (int i = 0; i < rounds; i++) seen.add(anything(licence));
            return null;
          });
      assertEquals(List.of(), seen.stream().filter(state -> !isConsistent(state)).toList());
      assertEquals(Status.LICENSED, licence.activate().status());
    }
  }

  @Test
  @DisplayName("no change is lost while other threads read the clock and the state")
  void lost() throws Exception {
    Session session = session(InstantSource.system());
    AtomicBoolean isDone = new AtomicBoolean();
    ExecutorService readers = Executors.newFixedThreadPool(2);
    try {
      for (int i = 0; i < 2; i++)
        readers.execute(
            () -> {
              while (!isDone.get()) session.state();
            });
      for (int i = 0; i < 50_000; i++) session.apply(Held::freed);
    } finally {
      isDone.set(true);
      readers.shutdown();
    }
    assertEquals(50_000, session.held().licence().revision());
  }

  private static Session session(InstantSource clock) {
    return new Session(
        LicenceClient.builder().clock(clock),
        new Identity("app", "machine", null, RootKeys.read(List.of("unpinned"))));
  }

  private static LicenceState anything(LicenceClient licence) {
    switch (ThreadLocalRandom.current().nextInt(40)) {
      case 0:
        return licence.activate();
      case 1:
        return licence.refresh();
      case 2:
        return licence.check();
      case 3:
        return licence.deactivate();
      case 4:
        return licence.ready();
      case 5:
        licence.activateAsync().cancel(true);
        return licence.state();
      case 6:
        licence.createOfflineRequest();
        return licence.activateOffline("no file");
      default:
        LicenceState state = licence.state();
        boolean isGranted = licence.hasFeature("export_pdf");
        long limit = licence.limit("max_projects");
        if (!(limit == 25 || limit == 0))
          throw new AssertionError("a limit of " + limit + ", feature " + isGranted);
        return state;
    }
  }

  private static boolean isConsistent(LicenceState state) {
    boolean hasToken = state.expiresAt() != null;
    return switch (state.status()) {
      case LICENSED -> state.usable() && state.reason() == null && hasToken;
      case GRACE -> state.usable() && state.reason() != null && hasToken;
      case UNLICENSED ->
          !state.usable()
              && !hasToken
              && List.of("deactivated", "file_malformed").contains(state.reason());
      default -> false;
    };
  }

  @Test
  @DisplayName(
      "the trusted time never moves faster than the clock, whatever number of threads read it")
  void clock() throws Exception {
    AtomicLong clock = new AtomicLong(1_795_255_200_000L);
    Session session = session(() -> Instant.ofEpochMilli(clock.getAndAdd(10)));
    inThreads(
        8,
        () -> {
          for (int i = 0; i < 20_000; i++) session.time();
          return null;
        });
    long seen = session.time();
    assertEquals(clock.get() - 10, seen);
    session.stop();
  }

  @Test
  @DisplayName(
      "a call that is waiting or running is not queued twice, and a caller that cancels does not"
          + " end it for others")
  void shared() throws Exception {
    try (FakeService service = new FakeService();
        LicenceClient licence = service.client().build()) {
      CountDownLatch gate = new CountDownLatch(1);
      service.instead =
          exchange -> {
            await(gate);
            service.instead = null;
            exchange.sendResponseHeaders(503, -1);
          };
      CompletableFuture<LicenceState> first = licence.activateAsync();
      CompletableFuture<LicenceState> second = licence.activateAsync();
      first.cancel(true);
      gate.countDown();
      assertEquals("unavailable", second.get().reason());
      assertTrue(first.isCancelled());
      assertEquals(List.of("POST /v1/activations"), service.requests);
    }
  }

  @Test
  @DisplayName("a listener may call the client, which returns the state without waiting")
  void listener() {
    assertTimeoutPreemptively(
        Duration.ofSeconds(10),
        () -> {
          try (FakeService service = new FakeService();
              LicenceClient licence = service.client().build()) {
            CompletableFuture<LicenceState> checked = new CompletableFuture<>();
            licence.onChange(
                state -> {
                  if (state.revocations() == LicenceState.Revocations.UNKNOWN) licence.check();
                  else checked.complete(state);
                  throw new IllegalStateException("errors of listeners are ignored");
                });
            licence.activate();
            assertEquals(LicenceState.Revocations.CURRENT, checked.get().revocations());
          }
        });
  }

  @Test
  @DisplayName(
      "an Error in a function of the product is the problem unexpected_error, and one in a listener"
          + " changes nothing")
  void errors() throws Exception {
    try (FakeService service = new FakeService();
        LicenceClient licence =
            service
                .client()
                .clock(ThreadsTest::fail)
                .nonce(
                    () -> {
                      throw new StackOverflowError();
                    })
                .build()) {
      List<LicenceState> heard = new ArrayList<>();
      licence.onChange(state -> fail());
      licence.onChange(heard::add);
      LicenceState state = licence.activate();
      assertEquals("unexpected_error", state.problem().code());
      assertTrue(state.problem().detail().contains("StackOverflowError"));
      assertEquals("unexpected_error", heard.get(0).problem().code());
      assertEquals(state.problem().code(), licence.ready().problem().code());
    }
  }

  private static Instant fail() {
    throw new AssertionError("a mistake of the product");
  }

  @Test
  @DisplayName("a listener that was removed is not called")
  void removed() throws Exception {
    try (FakeService service = new FakeService();
        LicenceClient licence = service.client().build()) {
      List<LicenceState> heard = new ArrayList<>();
      Runnable remove = licence.onChange(heard::add);
      licence.onChange(heard::add);
      remove.run();
      licence.activate();
      assertEquals(1, heard.size());
    }
  }

  @Test
  @DisplayName(
      "close ends a call that waits for the network, keeps the token, and leaves no thread")
  void close() throws Exception {
    Set<Thread> before = threads();
    try (FakeService service = new FakeService()) {
      LicenceClient licence =
          service.client().background(true).timeout(Duration.ofSeconds(60)).build();
      licence.activate();
      CountDownLatch gate = new CountDownLatch(1);
      service.instead = exchange -> await(gate);
      CompletableFuture<LicenceState> refresh = licence.refreshAsync();
      while (!service.requests.contains("POST /v1/activations/act_1/refresh")) Thread.onSpinWait();
      licence.close();
      assertTrue(refresh.get(5, TimeUnit.SECONDS).usable());
      gate.countDown();
      int asked = service.requests.size();
      assertTrue(licence.activate().usable());
      assertTrue(licence.hasFeature("export_pdf"));
      assertTrue(licence.refreshAsync().isDone());
      licence.close();
      assertEquals(asked, service.requests.size());
    }
    assertEnd(before);
  }

  @Test
  @DisplayName("close by a listener ends the client")
  void closedByListener() throws Exception {
    try (FakeService service = new FakeService()) {
      LicenceClient licence = service.client().build();
      licence.onChange(state -> licence.close());
      assertTrue(assertTimeoutPreemptively(Duration.ofSeconds(4), licence::activate).usable());
    }
  }

  @Test
  @DisplayName(
      "a store that hangs delays a call by little more than the timeout, and close ends its thread")
  void hangingStore() throws Exception {
    Set<Thread> before = threads();
    CountDownLatch never = new CountDownLatch(1);
    LicenceStore hanging =
        new LicenceStore() {
          @Override
          public String read() throws Exception {
            never.await();
            return null;
          }

          @Override
          public void write(String text) throws Exception {
            never.await();
          }
        };
    try (FakeService service = new FakeService();
        LicenceClient licence =
            service.client().store(hanging).timeout(Duration.ofMillis(300)).build()) {
      assertFalse(licence.hasFeature("export_pdf"));
      LicenceState state = assertTimeoutPreemptively(Duration.ofSeconds(3), licence::activate);
      assertEquals("store_failed", state.problem().code());
    }
    assertEnd(before);
  }

  /** The last thread of an HttpClient ends when the client is collected. */
  private static void assertEnd(Set<Thread> before) throws InterruptedException {
    Set<Thread> left = threads();
    for (int tries = 0; tries < 100 && !before.containsAll(left); tries++) {
      System.gc();
      Thread.sleep(50);
      left = threads();
    }
    left.removeAll(before);
    assertEquals(Set.of(), left);
  }

  /** The threads of clients, and of their HTTP clients. */
  private static Set<Thread> threads() {
    return Thread.getAllStackTraces().keySet().stream()
        .filter(thread -> thread.getName().matches("(licence|HttpClient).*"))
        .collect(Collectors.toSet());
  }

  private static void await(CountDownLatch gate) {
    try {
      gate.await();
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
    }
  }

  private static void inThreads(int count, Callable<Void> work) throws Exception {
    ExecutorService threads = Executors.newFixedThreadPool(count);
    try {
      List<Callable<Void>> all = new ArrayList<>();
      for (int i = 0; i < count; i++) all.add(work);
      for (Future<Void> each : threads.invokeAll(all)) each.get();
    } finally {
      threads.shutdownNow();
    }
  }
}
