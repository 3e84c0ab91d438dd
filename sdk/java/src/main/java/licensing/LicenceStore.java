package licensing;

import java.io.IOException;
import java.util.Objects;
import java.util.function.UnaryOperator;

/**
 * Keeps the knowledge of an installation between starts: one text, which is replaced as a whole.
 * All methods may throw, and the client waits for them no longer than its timeout: it then
 * continues in memory, and the state's problem says so.
 *
 * <p>Before each save the client reads the store and uses what is newer there: a revocation list, a
 * key set, a token. A store that several processes share must override {@link #update}: without it,
 * a process can overwrite what another one wrote between {@code read} and {@code write}.
 */
public interface LicenceStore {
  /** The text last written, or null if there is none. */
  String read() throws Exception;

  /** Replaces the text; should be atomic. */
  void write(String text) throws Exception;

  /**
   * Replaces the text by what {@code change} makes of it, without another write in between: under
   * an exclusive lock, or by compare-and-swap, with another call of {@code change} for the new text
   * after each failure. A lock must end with the process that holds it.
   *
   * <p>This method reads, changes, writes, and reads again to check, which is enough for one
   * process.
   */
  default void update(UnaryOperator<String> change) throws Exception {
    String found = read();
    for (int tries = 0; tries < 3; tries++) {
      String text = change.apply(found);
      write(text);
      found = read();
      if (Objects.equals(found, text)) return;
    }
    throw new IOException("another process keeps replacing the content of the store");
  }

  /** A store in memory, which ends with the process: the default of a client. */
  static LicenceStore inMemory() {
    return inMemory(null);
  }

  /** A store in memory with this text as its first content. */
  static LicenceStore inMemory(String text) {
    return new LicenceStore() {
      private String held = text;

      @Override
      public synchronized String read() {
        return held;
      }

      @Override
      public synchronized void write(String next) {
        held = next;
      }

      @Override
      public synchronized void update(UnaryOperator<String> change) {
        held = change.apply(held);
      }
    };
  }
}
