package licensing;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/** The files of {@code sdk/vectors}: its README says what they mean. */
final class Vectors {
  private static final Path FOLDER = Path.of("../vectors");
  static final Map<String, Object> SHARED = Json.object(read(FOLDER.resolve("shared.json")));

  private Vectors() {}

  private static Object read(Path file) {
    try {
      return Json.parse(Files.readString(file));
    } catch (IOException unreadable) {
      throw new UncheckedIOException(unreadable);
    }
  }

  /** All vectors of clients by file, with their references replaced by the values. */
  static Map<String, List<Map<String, Object>>> byFile() throws IOException {
    Map<String, List<Map<String, Object>>> files = new LinkedHashMap<>();
    try (Stream<Path> paths = Files.list(FOLDER)) {
      for (Path path : paths.sorted().toList()) {
        String name = path.getFileName().toString();
        if (name.endsWith(".json") && !name.matches("(shared|webhooks).json"))
          files.put(name, Json.objects(resolved(read(path))));
      }
    }
    return files;
  }

  /** The deliveries of {@code webhooks.json}. */
  static List<Map<String, Object>> deliveries() {
    return Json.objects(read(FOLDER.resolve("webhooks.json")));
  }

  static Map<String, Object> member(Map<String, Object> object, String name) {
    return Json.object(object.get(name));
  }

  /** The options of the client in {@code shared.json}. */
  static Map<String, Object> client() {
    return member(SHARED, "client");
  }

  static String jws(String document) {
    return (String) member(member(SHARED, "documents"), document).get("jws");
  }

  static Object value(String name) {
    return resolved(member(SHARED, "values").get(name));
  }

  private static Object resolved(Object value) {
    if (value instanceof List<?> list)
      return list.stream().map(Vectors::resolved).collect(Collectors.toList());
    Map<String, Object> object = Json.object(value);
    if (object == null) return value;
    if (object.get("$value") instanceof String name) return value(name);
    if (object.get("$jws") instanceof String name) return jws(name);
    if (object.get("$bearer") instanceof String name) return "Bearer " + jws(name);
    if (object.get("$lines") instanceof List<?> lines)
      return lines.stream().map(line -> (String) resolved(line)).collect(Collectors.joining("\n"));
    Map<String, Object> copy = new LinkedHashMap<>();
    object.forEach((key, entry) -> copy.put(key, resolved(entry)));
    return copy;
  }
}
