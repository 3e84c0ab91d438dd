package licensing;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;

import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class JsonTest {
  @ParameterizedTest(name = "reads and writes {0} as it is")
  @ValueSource(
      strings = {
        "null",
        "true",
        "-7",
        "9007199254740993",
        "1.5",
        "-0.25",
        "\"\"",
        "[]",
        "{}",
        "[1,[2,{}],\"a\"]",
        "{\"b\":1,\"a\":[null,false],\"\":\"\"}",
        "\"\\\"\\\\/\\b\\f\\n\\r\\t\\u0001\\ud800é😀\""
      })
  void same(String text) {
    assertEquals(text, Json.write(Json.parse(text)));
  }

  @ParameterizedTest(name = "does not read {0}")
  @ValueSource(
      strings = {
        "",
        " ",
        "01",
        "1.",
        ".5",
        "+1",
        "-",
        "1e",
        "NaN",
        "tru",
        "nullx",
        "'a'",
        "\"a",
        "\"\\x\"",
        "\"\\u12g4\"",
        "\"\\u12\"",
        "\"a\tb\"",
        "[1,]",
        "[1 2]",
        "[",
        "{\"a\":1,}",
        "{a:1}",
        "{\"a\" 1}",
        "{\"a\":1",
        "1 2",
        "[]]",
        "\uFEFF{}",
        "{,}",
        "/**/1",
        "\u00A01"
      })
  void malformed(String text) {
    assertThrows(IllegalArgumentException.class, () -> Json.parse(text));
    assertNull(Json.parseObject(text));
  }

  @Test
  @DisplayName(
      "reads escapes, blanks, numbers with exponents, and the last of two members of one name")
  void other() {
    assertEquals("aé😀/\n", Json.parse(" \t\r\n\"\\u0061\\u00e9\\uD83D\\uDE00\\/\\n\" "));
    assertEquals("[100,1.0E30,100]", Json.write(Json.parse("[ 1e2 , 1E+30 , 1.0e2]")));
    assertEquals("{\"a\":2}", Json.write(Json.parse("{\"a\":1,\"a\":2}")));
    assertEquals(Double.POSITIVE_INFINITY, Json.parse("1e999"));
  }

  @Test
  @DisplayName("times in the store and in headers have one form")
  void times() {
    assertEquals("2026-11-21T10:00:00.000Z", Times.iso(Times.parseIso("2026-11-21T11:00+01:00")));
    assertEquals("+275760-09-13T00:00:00.000Z", Times.iso(SeenTime.MAX_MS));
    assertEquals(SeenTime.MAX_MS, Times.parseIso("+275760-09-13T00:00:00.000Z"));
    assertNull(Times.parseIso("+275760-09-13T00:00:00.001Z"));
    assertEquals(
        "-000001-01-01T00:00:00.000Z", Times.iso(Times.parseIso("-000001-01-01T00:00:00.000Z")));
    assertNull(Times.parseIso("yesterday"));
    long sunday = Times.parseIso("2026-11-01T08:49:37Z");
    for (String date :
        new String[] {
          "Sun, 01 Nov 2026 08:49:37 GMT",
          "Sunday, 01-Nov-26 08:49:37 GMT",
          "Sun Nov  1 08:49:37 2026"
        }) assertEquals(sunday, Times.parseHttpDate(date));
    assertNull(Times.parseHttpDate("Sun, 31 Jun 2026 08:49:37 GMT"));
    long now = Times.parseIso("2026-11-21T10:00:00Z");
    assertEquals(120_000, Times.retryAfterMs("120", null, now));
    assertEquals(
        37_000,
        Times.retryAfterMs("Sun, 01 Nov 2026 08:49:37 GMT", "Sun, 01 Nov 2026 08:49:00 GMT", now));
    assertEquals(0, Times.retryAfterMs("Sun, 01 Nov 2026 08:49:37 GMT", null, now));
    assertNull(Times.retryAfterMs("soon", null, now));
  }
}
