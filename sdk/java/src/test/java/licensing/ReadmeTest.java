package licensing;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sun.net.httpserver.HttpHandler;
import java.io.IOException;
import java.lang.ProcessBuilder.Redirect;
import java.net.URI;
import java.net.URL;
import java.net.URLClassLoader;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Set;
import java.util.regex.MatchResult;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import javax.tools.ToolProvider;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class ReadmeTest {
  private static final Path GUIDE = Path.of("../README.md");

  @TempDir static Path built;
  @TempDir Path folder;

  /** The archives as they are published. */
  @BeforeAll
  static void build() throws Exception {
    Process process = new ProcessBuilder("./build.sh", built.toString()).inheritIO().start();
    assertEquals(0, process.waitFor());
    assertTrue(Files.size(built.resolve("licensing-sources.jar")) > 10_000);
  }

  private static List<String> programs() throws IOException {
    return found("(?s)```java\n(.*?)```", Files.readString(Path.of("README.md")));
  }

  @Test
  @DisplayName(
      "the product of the README is licensed, again without the network, and ends by itself")
  void product() throws Exception {
    try (FakeService service = new FakeService()) {
      String program =
          programs()
              .get(0)
              .replace("https://licensing.example.com", service.baseUrl())
              .replaceAll("lrk_[A-Za-z0-9_-]+", service.rootKey())
              .replace("/var/lib/acme/licence.json", folder.resolve("licence.json").toString());
      assertEquals("export: true, projects: 25", run(program));
      int asked = service.requests.size();
      assertEquals("export: true, projects: 25", run(program));
      assertTrue(
          service.requests.stream().skip(asked).noneMatch(request -> request.startsWith("POST")));
    }
  }

  @Test
  @DisplayName("the receiver of the README accepts a signed event, and answers 400 to any other")
  void receiver() throws Exception {
    String name = compile(programs().get(1));
    String body =
        "{\"id\":\"evt_1\",\"type\":\"webhook.test\",\"data\":{\"object\":{\"ping\":true}}}";
    long now = System.currentTimeMillis() / 1000;
    try (URLClassLoader loader = new URLClassLoader(new URL[] {folder.toUri().toURL()});
        FakeService service = new FakeService()) {
      HttpHandler receiver =
          (HttpHandler)
              loader.loadClass(name).getConstructor(String.class).newInstance(WebhooksTest.SECRET);
      service.instead = receiver::handle;
      HttpRequest request =
          HttpRequest.newBuilder(URI.create(service.baseUrl()))
              .header("Webhook-Signature", WebhooksTest.header(body, WebhooksTest.SECRET, now))
              .POST(BodyPublishers.ofString(body))
              .build();
      assertEquals(204, send(request));
      assertEquals(
          400,
          send(
              HttpRequest.newBuilder(URI.create(service.baseUrl()))
                  .POST(BodyPublishers.ofString(body))
                  .build()));
    }
  }

  private static int send(HttpRequest request) throws Exception {
    return HttpClient.newHttpClient().send(request, BodyHandlers.discarding()).statusCode();
  }

  private String run(String program) throws Exception {
    String name = compile(program);
    String java = Path.of(System.getProperty("java.home"), "bin", "java").toString();
    Process process =
        new ProcessBuilder(java, "-cp", built.resolve("licensing.jar") + ":" + folder, name)
            .redirectError(Redirect.INHERIT)
            .start();
    String printed = new String(process.getInputStream().readAllBytes());
    assertEquals(0, process.waitFor(), printed);
    return printed.strip();
  }

  private String compile(String program) throws IOException {
    String name = found("public final class (\\w+)", program).get(0);
    Path source = Files.writeString(folder.resolve(name + ".java"), program);
    int outcome =
        ToolProvider.getSystemJavaCompiler()
            .run(
                null,
                null,
                null,
                "-Xlint:all",
                "-Werror",
                "-cp",
                built.resolve("licensing.jar").toString(),
                "-d",
                folder.toString(),
                source.toString());
    assertEquals(0, outcome);
    return name;
  }

  @Test
  @DisplayName(
      "the tables of the client's description name the statuses, reasons, problems and operations of the code")
  void tables() throws Exception {
    String guide = Files.readString(GUIDE);
    String rows = section(guide, "The table of states").replaceFirst("\\|.*\\n", "");
    assertEquals(texts(LicenceState.Status.values()), Set.copyOf(column(rows, 2)));
    String reasons = section(guide, "Reasons");
    Set<String> named = new HashSet<>();
    for (String row : reasons.split("\n")) {
      if (!row.startsWith("| operation")) named.addAll(column(row, 3));
      else assertEquals(texts(LicenceState.Operation.values()), Set.copyOf(column(row, 3)));
    }
    Set<String> constants = new HashSet<>();
    for (var field : Reasons.class.getFields()) {
      assertEquals(field.getName().toLowerCase(Locale.ROOT), field.get(null));
      constants.add((String) field.get(null));
    }
    assertEquals(named, constants);
  }

  @Test
  @DisplayName("every refusal has a reason of the table")
  void refusals() throws Exception {
    String table = section(Files.readString(GUIDE), "Requests and answers");
    List<LicenceState.Operation> operations =
        List.of(
            LicenceState.Operation.ACTIVATE,
            LicenceState.Operation.REFRESH,
            LicenceState.Operation.MIGRATE,
            LicenceState.Operation.START_TRIAL);
    for (String row : table.split("\n")) {
      String[] cells = row.split("\\|");
      if (cells.length < 6 || !cells[1].matches(" `\\d{3} \\w+` +")) continue;
      String refusal = cells[1].replace("`", "").strip();
      for (int i = 0; i < operations.size(); i++)
        assertEquals(
            cells[i + 2].replace("`", "").strip(),
            Calls.REFUSALS.get(operations.get(i)).getOrDefault(refusal, ""),
            refusal);
    }
  }

  private static Set<String> texts(Object[] values) {
    return Arrays.stream(values).map(Object::toString).collect(Collectors.toSet());
  }

  private static String section(String guide, String heading) {
    return found("(?s)\n## " + heading + "\n(.*?)\n## ", guide).get(0);
  }

  /** The words in code marks in a column of a table, but those in parentheses. */
  private static List<String> column(String table, int number) {
    return table
        .lines()
        .filter(row -> row.startsWith("|"))
        .map(row -> row.split("\\|"))
        .filter(cells -> cells.length > number)
        .flatMap(cells -> found("`(\\w+)`", cells[number].replaceAll("\\([^)]*\\)", "")).stream())
        .toList();
  }

  private static List<String> found(String pattern, String text) {
    Stream<MatchResult> results = Pattern.compile(pattern).matcher(text).results();
    return results.map(result -> result.group(1)).toList();
  }
}
