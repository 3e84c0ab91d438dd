package licensing;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class FileStoreTest {
  @TempDir Path folder;

  @Test
  @DisplayName(
      "is empty before the first write, then has the text last written, creates its folder, and is its owner's")
  void writes() throws Exception {
    Path path = folder.resolve("acme/data/licence.json");
    assertNull(new FileStore(path).read());
    new FileStore(path).write("a longer one");
    new FileStore(path).write("two");
    assertEquals("two", new FileStore(path).read());
    assertEquals("rw-------", PosixFilePermissions.toString(Files.getPosixFilePermissions(path)));
    assertEquals(List.of("licence.json"), names(path.getParent()));
  }

  @Test
  @DisplayName("writes the file that a symbolic link points to, and keeps the link")
  void link() throws Exception {
    Files.createDirectory(folder.resolve("data"));
    Path link = Files.createSymbolicLink(folder.resolve("link"), Path.of("data/licence.json"));
    FileStore store = new FileStore(link);
    assertNull(store.read());
    store.write("one");
    store.update(text -> text + " two");
    assertEquals("one two", Files.readString(folder.resolve("data/licence.json")));
    assertTrue(Files.isSymbolicLink(link));
    assertEquals(List.of("licence.json"), names(folder.resolve("data")));
  }

  @Test
  @DisplayName("calls the change again if another process has written a text in between")
  void race() throws Exception {
    FileStore store = new FileStore(folder.resolve("licence.json"));
    List<String> seen = new ArrayList<>();
    store.update(
        text -> {
          seen.add(text);
          if (text == null) writeUnchecked(store, "theirs");
          return text + " and mine";
        });
    assertEquals(Arrays.asList(null, "theirs"), seen);
    assertEquals("theirs and mine", store.read());
  }

  private static void writeUnchecked(FileStore store, String text) {
    try {
      store.write(text);
    } catch (IOException failed) {
      throw new AssertionError(failed);
    }
  }

  @Test
  @DisplayName("renames what a killed process left into place, and loses neither text")
  void abandoned() throws Exception {
    Path path = folder.resolve("licence.json");
    Files.writeString(folder.resolve("licence.json.after-none"), "theirs");
    FileStore store = new FileStore(path);
    store.update(text -> text + " and mine");
    assertEquals("theirs and mine", store.read());
    assertEquals(List.of("licence.json"), names(folder));
  }

  @Test
  @DisplayName("throws if the file cannot exist")
  void impossible() throws Exception {
    Files.writeString(folder.resolve("plain"), "");
    FileStore store = new FileStore(folder.resolve("plain/licence.json"));
    assertThrows(IOException.class, store::read);
    assertThrows(IOException.class, () -> store.write("text"));
  }

  @Test
  @DisplayName(
      "several processes lose nothing that they write to one store, and have one fingerprint")
  void processes() throws Exception {
    Path path = folder.resolve("store/licence.json");
    List<Process> processes = new ArrayList<>();
    for (int i = 0; i < 4; i++)
      processes.add(java(Appender.class, path.toString(), String.valueOf(i)).start());
    List<String> fingerprints = new ArrayList<>();
    for (Process process : processes) {
      fingerprints.add(new String(process.getInputStream().readAllBytes()));
      assertEquals(0, process.waitFor());
    }
    Set<String> lines = Files.readString(path).lines().collect(Collectors.toSet());
    assertEquals(4 * 20, lines.size());
    assertEquals(1, Set.copyOf(fingerprints).size());
    assertEquals(List.of("id", "licence.json"), names(path.getParent()));
  }

  /** Adds lines to a store, and prints a fingerprint. */
  static final class Appender {
    public static void main(String[] arguments) throws Exception {
      Path path = Path.of(arguments[0]);
      System.out.print(MachineFingerprint.of("app_1", path.resolveSibling("id")));
      for (int i = 0; i < 20; i++) {
        String line = arguments[1] + "-" + i + "\n";
        new FileStore(path).update(text -> (text == null ? "" : text) + line);
      }
    }
  }

  @Test
  @DisplayName("a single file that is mounted is written in place")
  void mounted() throws Exception {
    assertInNamespace(
        "mount --bind \"$1/empty\" \"$1/file\"",
        "file",
        "a longer text|longer text|shorter|longer text");
    assertEquals("longer text", Files.readString(folder.resolve("empty")));
    assertEquals(List.of("empty", "file"), names(folder));
  }

  @Test
  @DisplayName("on a full disk, and on one that is read-only, the old text stays")
  void fullDisk() throws Exception {
    assertInNamespace(
        "mount -t tmpfs -o size=64k none \"$1/disk\" && printf old > \"$1/disk/f\" && (cat /dev/zero > \"$1/disk/zero\" || true)",
        "disk/f",
        "old|failed|old|old");
    assertInNamespace(
        "mount -t tmpfs none \"$1/disk\" && printf old > \"$1/disk/f\" && mount -o remount,ro \"$1/disk\"",
        "disk/f",
        "old|failed|old|old");
  }

  private void assertInNamespace(String setup, String file, String expected) throws Exception {
    Process probe = new ProcessBuilder("unshare", "--mount", "--map-root-user", "true").start();
    assumeTrue(probe.waitFor() == 0, "mounting is not allowed here");
    Files.createDirectories(folder.resolve("disk"));
    if (file.equals("file")) {
      Files.deleteIfExists(folder.resolve("disk"));
      Files.writeString(folder.resolve("empty"), "");
      Files.writeString(folder.resolve("file"), "the mount hides this");
    }
    String script = "{ " + setup + "; } 2>/dev/null && shift && exec \"$@\"";
    List<String> command =
        new ArrayList<>(
            List.of(
                "unshare",
                "--mount",
                "--map-root-user",
                "sh",
                "-c",
                script,
                "sh",
                folder.toString()));
    command.addAll(java(Writer.class, folder.resolve(file).toString()).command());
    Process process =
        new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT).start();
    assertEquals(expected, new String(process.getInputStream().readAllBytes()));
    if (file.startsWith("disk")) Files.deleteIfExists(folder.resolve("disk"));
  }

  /** Writes a text, shortens it, and writes a long one; prints what the store has after each. */
  static final class Writer {
    public static void main(String[] arguments) throws Exception {
      FileStore store = new FileStore(Path.of(arguments[0]));
      boolean isOld = "old".equals(store.read());
      if (!isOld) store.write("a longer text");
      System.out.print(store.read());
      try {
        store.update(text -> isOld ? "x".repeat(4096) : text.substring(2));
        System.out.print("|" + store.read() + "|shorter");
      } catch (IOException failed) {
        System.out.print("|failed|" + store.read());
      }
      System.out.print("|" + store.read());
    }
  }

  private static ProcessBuilder java(Class<?> program, String... arguments) {
    String java = Path.of(System.getProperty("java.home"), "bin", "java").toString();
    List<String> command = new ArrayList<>(List.of(java, "-cp", classPath(), program.getName()));
    command.addAll(List.of(arguments));
    return new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT);
  }

  static String classPath() {
    return Stream.of("target/classes", "target/test-classes")
        .map(part -> new File(part).getAbsolutePath())
        .collect(Collectors.joining(File.pathSeparator));
  }

  private static List<String> names(Path folder) throws IOException {
    try (Stream<Path> paths = Files.list(folder)) {
      return paths.map(path -> path.getFileName().toString()).sorted().toList();
    }
  }
}
