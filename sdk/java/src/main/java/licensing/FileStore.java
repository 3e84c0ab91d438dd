package licensing;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.FileSystems;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.NotLinkException;
import java.nio.file.OpenOption;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.BasicFileAttributes;
import java.nio.file.attribute.FileAttribute;
import java.nio.file.attribute.PosixFilePermissions;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.List;
import java.util.Objects;
import java.util.Set;
import java.util.UUID;
import java.util.function.UnaryOperator;

/**
 * A store in one file, readable by its owner only. The file is replaced by renaming, so a crash
 * leaves either the old or the new content. Its folder is created if it is missing. Several
 * processes may share it, also with products in other languages.
 *
 * <p>If the file cannot be replaced by renaming (a single mounted file, a read-only folder), it is
 * written in place.
 */
public final class FileStore implements LicenceStore {
  private final Path path;

  /**
   * @param path of the file; in a container it should be on a volume
   */
  public FileStore(Path path) {
    this.path = path;
  }

  @Override
  public String read() throws IOException {
    return readText(path);
  }

  @Override
  public void write(String text) throws IOException {
    update(before -> text);
  }

  @Override
  public void update(UnaryOperator<String> change) throws IOException {
    Path file = target(path);
    String before;
    do before = readText(file);
    while (!replace(file, before, change.apply(before)));
  }

  /** The text of a file; null if there is none. */
  static String readText(Path path) throws IOException {
    try {
      return new String(Files.readAllBytes(path), StandardCharsets.UTF_8);
    } catch (NoSuchFileException missing) {
      return null;
    }
  }

  /** The file that a path leads to through symbolic links, even if that file does not exist yet. */
  static Path target(Path path) throws IOException {
    try {
      return path.toRealPath();
    } catch (NoSuchFileException missing) {
      try {
        return target(path.resolveSibling(Files.readSymbolicLink(path)));
      } catch (NoSuchFileException | NotLinkException plain) {
        return path.toAbsolutePath();
      }
    }
  }

  /** Creates a file with this text, unless it exists. No reader sees a part of it. */
  static void createFile(Path path, String text) throws IOException {
    Files.createDirectories(path.getParent());
    Path draft = path.resolveSibling(path.getFileName() + "." + UUID.randomUUID());
    try {
      writeText(draft, text, StandardOpenOption.CREATE_NEW);
      Files.createLink(path, draft);
    } finally {
      Files.deleteIfExists(draft);
    }
  }

  /** Writes a text that only the owner of the file can read, and waits until the disk has it. */
  static void writeText(Path path, String text, OpenOption... how) throws IOException {
    boolean isPosix = FileSystems.getDefault().supportedFileAttributeViews().contains("posix");
    FileAttribute<?>[] owned = {
      PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rw-------"))
    };
    Set<OpenOption> options = new HashSet<>(List.of(how));
    options.add(StandardOpenOption.WRITE);
    try (FileChannel file =
        FileChannel.open(path, options, isPosix ? owned : new FileAttribute<?>[0])) {
      ByteBuffer bytes = ByteBuffer.wrap(text.getBytes(StandardCharsets.UTF_8));
      while (bytes.hasRemaining()) file.write(bytes);
      // A file that is written in place may have been longer. Another process may have appended
      // since.
      if (!options.contains(StandardOpenOption.APPEND)) file.truncate(file.position());
      file.force(true);
    }
  }

  /**
   * Replaces the text {@code before} of a file by {@code after}. False if another process has
   * replaced it first.
   *
   * <p>The new text is first written to a file whose name is derived from the old text, so only one
   * process can create it. If that process is killed, another one can rename the complete file into
   * place. No process waits for a lock that a crash left behind.
   */
  private static boolean replace(Path path, String before, String after) throws IOException {
    Path successor =
        path.resolveSibling(
            path.getFileName() + ".after-" + (before == null ? "none" : digest(before)));
    boolean isOurs = true;
    try {
      createFile(successor, after);
    } catch (FileAlreadyExistsException exists) {
      if (!successor.toString().equals(exists.getFile())) throw exists;
      if (!isAbandoned(successor)) return false;
      isOurs = false;
    } catch (IOException | UnsupportedOperationException failed) {
      return writeInPlace(path, before, after, failed);
    }
    // Checked again now: from here only this successor can replace `before`.
    if (!Objects.equals(readText(path), before)) {
      if (isOurs) Files.deleteIfExists(successor);
      return false;
    }
    try {
      Files.move(successor, path, StandardCopyOption.ATOMIC_MOVE);
    } catch (NoSuchFileException renamed) {
      // Another process assumed that this one was killed, and has renamed the successor into place.
    } catch (IOException | UnsupportedOperationException failed) {
      Files.deleteIfExists(successor);
      return writeInPlace(path, before, after, failed);
    }
    return isOurs;
  }

  /**
   * A process that has not finished a write after this time was killed: a write takes a few
   * milliseconds.
   */
  private static final long ABANDONED_AFTER_NANOS = 1_000_000_000;

  private static final long POLL_MS = 5;

  /**
   * Waits until a successor is in place. True if that does not happen, because its process was
   * killed.
   */
  private static boolean isAbandoned(Path successor) throws IOException {
    long begun = System.nanoTime();
    Object first = identityOf(successor);
    while (System.nanoTime() - begun < ABANDONED_AFTER_NANOS) {
      try {
        Thread.sleep(POLL_MS);
      } catch (InterruptedException interrupted) {
        Thread.currentThread().interrupt();
        throw new IOException("interrupted", interrupted);
      }
      if (!Objects.equals(identityOf(successor), first)) return false;
    }
    return first != null;
  }

  /**
   * What tells a file from a later one of the same name: its inode, or on Windows its creation;
   * null if there is none.
   */
  private static Object identityOf(Path path) {
    try {
      BasicFileAttributes attributes = Files.readAttributes(path, BasicFileAttributes.class);
      return attributes.fileKey() == null ? attributes.creationTime() : attributes.fileKey();
    } catch (IOException missing) {
      return null;
    }
  }

  /**
   * For a file that cannot be linked or renamed in its folder. On a full disk the old text stays:
   * errors have no code in Java, so the free space decides.
   */
  private static boolean writeInPlace(Path path, String before, String after, Exception cause)
      throws IOException {
    Path place = Files.exists(path) ? path : path.getParent();
    boolean canFit = Files.getFileStore(place).getUsableSpace() > after.length();
    if (!canFit) throw cause instanceof IOException failed ? failed : new IOException(cause);
    if (!Objects.equals(readText(path), before)) return false;
    writeText(path, after, StandardOpenOption.CREATE);
    return true;
  }

  private static String digest(String text) {
    try {
      byte[] hash =
          MessageDigest.getInstance("SHA-256").digest(text.getBytes(StandardCharsets.UTF_8));
      return HexFormat.of().formatHex(hash).substring(0, 32);
    } catch (NoSuchAlgorithmException missing) {
      throw new IllegalStateException("every Java runtime has SHA-256", missing);
    }
  }
}
