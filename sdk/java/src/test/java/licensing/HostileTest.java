package licensing;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;

class HostileTest {
  private static final byte[] BLANKS = " ".repeat(64 * 1024).getBytes(StandardCharsets.US_ASCII);

  private FakeService service;

  @BeforeEach
  void start() throws Exception {
    service = new FakeService();
  }

  @AfterEach
  void stop() {
    service.close();
  }

  /** Activates with an answer instead of the service's, in little more than the timeout. */
  private LicenceState activate(FakeService.Instead instead) {
    service.instead = instead;
    try (LicenceClient licence = service.client().timeout(Duration.ofSeconds(2)).build()) {
      long begun = System.nanoTime();
      LicenceState state = licence.activate();
      assertTrue(System.nanoTime() - begun < TimeUnit.SECONDS.toNanos(4));
      assertFalse(licence.hasFeature("export_pdf"));
      return state;
    }
  }

  @Test
  @DisplayName("an answer that never ends, fast: unexpected_answer")
  void endless() {
    LicenceState state =
        activate(
            exchange -> {
              exchange.sendResponseHeaders(200, 0);
              OutputStream out = exchange.getResponseBody();
              while (!Thread.currentThread().isInterrupted()) out.write(BLANKS);
            });
    assertEquals("unexpected_answer", state.reason());
  }

  @Test
  @DisplayName("an answer that never ends, a byte at a time: timeout")
  void slow() {
    LicenceState state =
        activate(
            exchange -> {
              exchange.sendResponseHeaders(200, 0);
              OutputStream out = exchange.getResponseBody();
              for (int i = 0; i < 100; i++) {
                out.write(' ');
                out.flush();
                pause();
              }
            });
    assertEquals("timeout", state.reason());
  }

  @Test
  @DisplayName("3 MiB: unexpected_answer")
  void huge() {
    LicenceState state =
        activate(
            exchange -> {
              exchange.sendResponseHeaders(503, 3 * 1024 * 1024);
              for (int i = 0; i < 48; i++) exchange.getResponseBody().write(BLANKS);
            });
    assertEquals("unexpected_answer", state.reason());
  }

  @Test
  @DisplayName("a redirect is not followed")
  void redirect() {
    LicenceState state =
        activate(
            exchange -> {
              exchange.getResponseHeaders().set("location", service.baseUrl() + "/elsewhere");
              exchange.sendResponseHeaders(307, -1);
            });
    assertEquals("unexpected_answer", state.reason());
    assertEquals(1, service.requests.size());
  }

  @Test
  @DisplayName("the charset that an answer claims does not count")
  void charset() {
    LicenceState state =
        activate(
            exchange -> {
              byte[] problem =
                  "{\"code\":\"not_found\",\"detail\":\"nö\"}".getBytes(StandardCharsets.UTF_8);
              exchange.getResponseHeaders().set("content-type", "application/json; charset=utf-16");
              exchange.sendResponseHeaders(404, problem.length);
              exchange.getResponseBody().write(problem);
            });
    assertEquals("unknown_licence_key", state.reason());
    assertEquals("nö", state.problem().detail());
  }

  @Test
  @DisplayName("JSON that is nested too deeply: unexpected_answer")
  void nested() {
    LicenceState state =
        activate(
            exchange -> {
              byte[] text = "[".repeat(1_000_000).getBytes(StandardCharsets.US_ASCII);
              exchange.sendResponseHeaders(200, text.length);
              exchange.getResponseBody().write(text);
            });
    assertEquals("unexpected_answer", state.reason());
  }

  @Test
  @DisplayName("an answer that is cut off: unreachable")
  void cut() {
    LicenceState state =
        activate(
            exchange -> {
              exchange.sendResponseHeaders(200, 1000);
              exchange.getResponseBody().write('{');
              exchange.getResponseBody().flush();
              exchange.close();
            });
    assertEquals("unreachable", state.reason());
  }

  @Test
  @DisplayName("no server, no address and no host: unreachable, and nothing throws")
  void unreachable() {
    for (String address :
        new String[] {"http://127.0.0.1:9", "nonsense", "", "http://", "http://a b", null}) {
      try (LicenceClient licence = service.client().baseUrl(address).build()) {
        assertEquals("unreachable", licence.activate().reason(), address);
      }
    }
  }

  @Test
  @DisplayName("options and arguments that are null do not stop a product")
  void nulls() {
    try (LicenceClient licence =
        service
            .client()
            .licenceKey(null)
            .fingerprint(null)
            .host(null)
            .store(null)
            .clock(() -> null)
            .build()) {
      assertEquals("unexpected_error", licence.migrate(null).problem().code());
      assertEquals("file_malformed", licence.activateOffline(null).reason());
      assertEquals("unknown_plan", licence.startTrial(null).reason());
      assertFalse(licence.hasFeature(null));
      assertEquals(0, licence.limit(null));
      assertTrue(licence.covers((String) null));
      assertNull(licence.licenceKey());
    }
  }

  @Test
  @DisplayName("a file of dashes is refused in time")
  void dashes() {
    try (LicenceClient licence = service.client().build()) {
      String dashes = "-".repeat(1_000_000);
      for (String text :
          new String[] {
            dashes, "-BEGIN LICENCE-" + ("x" + dashes), "-BEGIN LICENCE-\n" + "> ".repeat(500_000)
          }) {
        long begun = System.nanoTime();
        assertEquals("file_malformed", licence.activateOffline(text).reason());
        assertTrue(System.nanoTime() - begun < TimeUnit.SECONDS.toNanos(3));
      }
    }
  }

  @Test
  @DisplayName("a clock that jumps grants nothing beyond the token")
  void clock() {
    long[] now = {System.currentTimeMillis()};
    try (LicenceClient licence =
        service.client().clock(() -> java.time.Instant.ofEpochMilli(now[0])).build()) {
      assertTrue(licence.activate().usable());
      now[0] += 25 * 3_600_000L;
      assertFalse(licence.hasFeature("export_pdf"));
      now[0] -= 25 * 3_600_000L;
      assertFalse(licence.hasFeature("export_pdf"));
      assertTrue(licence.state().clockTurnedBack());
      now[0] = Long.MIN_VALUE / 1_000_000;
      assertFalse(licence.hasFeature("export_pdf"));
    }
  }

  private static void pause() {
    try {
      Thread.sleep(100);
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
    }
  }
}
