package licensing;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class MachineFingerprintTest {
  private static final String GOOD = "8f3c1c0e6d5b4a2f9e8d7c6b5a493827";

  @TempDir Path folder;

  @Test
  @DisplayName("is the same each time, and different for another application")
  void stable() {
    assertTrue(MachineFingerprint.of("app_1").matches("[0-9a-f]{64}"));
    assertEquals(MachineFingerprint.of("app_1"), MachineFingerprint.of("app_1"));
    assertNotEquals(MachineFingerprint.of("app_1"), MachineFingerprint.of("app_2"));
  }

  @Test
  @DisplayName("is made from the id in a file, also through a link, whatever is around the id")
  void file() throws Exception {
    Path file = folder.resolve("data/id");
    String first = MachineFingerprint.of("app_1", file);
    assertEquals(first, MachineFingerprint.of("app_1", file));
    assertTrue(Files.readString(file).matches("[0-9a-f-]{36}\n"));
    Path link = Files.createSymbolicLink(folder.resolve("link"), Path.of("data/id"));
    assertEquals(first, MachineFingerprint.of("app_1", link));
    Files.writeString(file, "machine-7");
    // printf 'app_1\nmachine-7' | sha256sum
    String known = "53bde91eb1f0574114aa49f03e07e0221d77f53b33b5250bc3589c90f5e86cce";
    assertEquals(known, MachineFingerprint.of("app_1", file));
    Files.writeString(file, "\0\0\r\n  machine-7\r\nnot this");
    assertEquals(known, MachineFingerprint.of("app_1", file));
    Files.writeString(file, "\0\n");
    assertEquals(MachineFingerprint.of("app_1", file), MachineFingerprint.of("app_1", file));
  }

  @Test
  @DisplayName("throws if the file cannot be stored, instead of a different one each time")
  void impossible() throws Exception {
    Files.writeString(folder.resolve("plain"), "");
    assertThrows(
        IOException.class, () -> MachineFingerprint.of("app_1", folder.resolve("plain/id")));
  }

  @Test
  @DisplayName("skips the placeholders of machines without an id")
  void placeholders() {
    String[] placeholders = {
      "uninitialized\n",
      "",
      "\n",
      "00000000000000000000000000000000\n",
      "FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF",
      "03000200-0400-0500-0006-000700080009",
      "12345678-1234-5678-90AB-CDDEEFAABBCC",
      "To be filled by O.E.M."
    };
    for (String placeholder : placeholders) {
      assertEquals(
          GOOD,
          linux(Map.of("/etc/machine-id", placeholder, "/var/lib/dbus/machine-id", GOOD + "\n")));
      assertNull(linux(Map.of("/etc/machine-id", placeholder)));
    }
  }

  private static String linux(Map<String, String> files) {
    return MachineFingerprint.machineId(
        "Linux", path -> files.getOrDefault(path.toString(), ""), command -> "");
  }

  @Test
  @DisplayName("is the id that macOS and Windows report, on Windows from the registry of 64 bits")
  void systems() {
    String guid = "B7A1D5E2-3C4F-4E5A-9B8C-1D2E3F4A5B6C";
    assertEquals(guid, reported("Mac OS X", "    \"IOPlatformUUID\" = \"" + guid + "\"\n"));
    assertEquals(guid, reported("Windows 11", "    MachineGuid    REG_SZ    " + guid + "\r\n\r\n"));
  }

  private static String reported(String system, String printed) {
    return MachineFingerprint.machineId(
        system,
        path -> "",
        command -> command.get(0).equals("reg") && !command.contains("/reg:64") ? "" : printed);
  }
}
