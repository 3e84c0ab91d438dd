package licensing;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Locale;
import java.util.Objects;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;

/**
 * A fingerprint of this machine: 64 hexadecimal characters, the same at every start and in each
 * language. It is a hash, so the machine's own id is not sent, and the same machine has another
 * fingerprint in another application.
 */
public final class MachineFingerprint {
  private MachineFingerprint() {}

  /**
   * The fingerprint from the machine's own id. An id that many machines share ({@code
   * uninitialized}, zeros, a vendor's placeholder) is skipped. If the machine has no id, its host
   * name is used.
   */
  public static String of(String appId) {
    String id =
        machineId(
            System.getProperty("os.name"),
            MachineFingerprint::content,
            MachineFingerprint::printed);
    return hash(appId, id == null ? hostName() : id);
  }

  /**
   * The fingerprint from a random id that is kept in a file. For containers, which have no id or
   * share the one of their image: put the file on a volume. Processes that start at the same time
   * use one id.
   *
   * @throws IOException if the file can be neither read nor written
   */
  public static String of(String appId, Path file) throws IOException {
    return hash(appId, keptId(file));
  }

  private static String hash(String appId, String id) {
    try {
      byte[] text = (appId + "\n" + id).getBytes(StandardCharsets.UTF_8);
      return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(text));
    } catch (NoSuchAlgorithmException missing) {
      throw new IllegalStateException("every Java runtime has SHA-256", missing);
    }
  }

  /** The id in a file; a new one if there is none yet. */
  private static String keptId(Path file) throws IOException {
    Path path = FileStore.target(file);
    String kept = firstLine(path);
    if (kept != null) return kept;
    String line = UUID.randomUUID() + "\n";
    // Created exclusively, so that one of several processes decides. If that is not possible,
    // because the file exists and is
    // empty or because the file system has no links, the first line that is appended decides.
    try {
      FileStore.createFile(path, line);
    } catch (IOException | UnsupportedOperationException impossible) {
      if (firstLine(path) == null)
        FileStore.writeText(path, line, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
    }
    String id = firstLine(path);
    if (id == null) throw new IOException(file + " does not keep what is written to it");
    return id;
  }

  /**
   * The first line that is not blank. After a crash, text that was not written to the disk yet
   * reads as NUL characters.
   */
  private static String firstLine(Path path) throws IOException {
    String text = FileStore.readText(path);
    if (text == null) return null;
    return Arrays.stream(text.replace("\0", "").split("[\r\n]+"))
        .map(MachineFingerprint::trimmed)
        .filter(line -> !line.isEmpty())
        .findFirst()
        .orElse(null);
  }

  /** The id that the operating system gives the machine; null if it has none of its own. */
  static String machineId(
      String system, Function<Path, String> file, Function<List<String>, String> output) {
    String name = system.toLowerCase(Locale.ROOT);
    if (name.startsWith("mac")) {
      String text = output.apply(List.of("ioreg", "-rd1", "-c", "IOPlatformExpertDevice"));
      return firstGood(Stream.of(found("\"IOPlatformUUID\" = \"(.+?)\"", text)));
    }
    if (name.startsWith("windows")) {
      String key = "HKLM\\SOFTWARE\\Microsoft\\Cryptography";
      // A program of 32 bits is shown another registry, which has no such value.
      String text = output.apply(List.of("reg", "query", key, "/v", "MachineGuid", "/reg:64"));
      return firstGood(Stream.of(found("MachineGuid\\s+REG_SZ\\s+(.+)", text)));
    }
    return firstGood(
        Stream.of("/etc/machine-id", "/var/lib/dbus/machine-id").map(Path::of).map(file));
  }

  private static String found(String pattern, String text) {
    Matcher matcher = Pattern.compile(pattern).matcher(text);
    return matcher.find() ? matcher.group(1) : "";
  }

  private static String firstGood(Stream<String> ids) {
    return ids.map(MachineFingerprint::trimmed)
        .filter(id -> !isPlaceholder(id))
        .findFirst()
        .orElse(null);
  }

  private static String trimmed(String text) {
    return text.replaceAll("^[\\s\\u00A0\\uFEFF]+|[\\s\\u00A0\\uFEFF]+$", "");
  }

  private static String printed(List<String> command) {
    try {
      Process process =
          new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.DISCARD).start();
      process.getOutputStream().close();
      if (!process.waitFor(2, TimeUnit.SECONDS)) process.destroyForcibly();
      return process.exitValue() == 0
          ? new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8)
          : "";
    } catch (IOException | IllegalThreadStateException failed) {
      return "";
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
      return "";
    }
  }

  private static String content(Path path) {
    try {
      return Objects.requireNonNullElse(FileStore.readText(path), "");
    } catch (IOException unreadable) {
      return "";
    }
  }

  private static String hostName() {
    String name = trimmed(content(Path.of("/proc/sys/kernel/hostname")));
    return name.isEmpty() ? trimmed(printed(List.of("hostname"))) : name;
  }

  /**
   * Placeholders that many machines have instead of an id: systemd's before the first boot, and the
   * defaults of firmware whose maker wrote no id. Letters and digits only, in lower case.
   */
  private static final Set<String> PLACEHOLDERS =
      Set.of(
          """
          uninitialized none null unknown na notapplicable notavailable notspecified notsettable
          invalid default defaultstring systemserialnumber serialnumber tobefilledbyoem oem oemstring
          03000200040005000006000700080009 00020003000400050006000700080009
          123456781234567890abcddeefaabbcc 1234567812345678123456789abcdef0
          12345678901234567890123456789012 0123456789abcdef0123456789abcdef
          4c4c454400002010802080c04f202020 fefefefefefefefefefefefefefefefe\
          """
              .split("\\s+"));

  /**
   * Whether a text is blank, a placeholder, or one character repeated (zeros): no id of one
   * machine.
   */
  private static boolean isPlaceholder(String id) {
    String plain = id.toLowerCase(Locale.ROOT).replaceAll("[^a-z0-9]", "");
    return plain.chars().distinct().count() <= 1 || PLACEHOLDERS.contains(plain);
  }
}
