package licensing;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * JSON as maps, lists, strings, numbers ({@code Long} for integers, else {@code Double}), booleans
 * and null. The reader accepts what RFC 8259 allows and nothing else; the writer gives the text
 * that {@code JSON.stringify} gives.
 */
final class Json {
  /** Deeper nesting comes from no service, and would overflow the stack. */
  private static final int MAX_DEPTH = 200;

  private static final Pattern NUMBER =
      Pattern.compile("-?(?:0|[1-9][0-9]*+)(\\.[0-9]++)?([eE][+-]?[0-9]++)?");
  private static final String ESCAPES = "\"\\/bfnrt";
  private static final String ESCAPED = "\"\\/\b\f\n\r\t";

  private final String text;
  private int at = 0;

  private Json(String text) {
    this.text = text;
  }

  /**
   * @throws IllegalArgumentException if the text is not JSON
   */
  static Object parse(String text) {
    Json json = new Json(text);
    Object value = json.value(0);
    if (json.peek() != 0 || json.at < text.length()) throw json.malformed();
    return value;
  }

  /** An object, or null if the text is anything else. */
  static Map<String, Object> parseObject(String text) {
    try {
      return object(parse(text));
    } catch (IllegalArgumentException malformed) {
      return null;
    }
  }

  @SuppressWarnings("unchecked")
  static Map<String, Object> object(Object value) {
    return value instanceof Map ? (Map<String, Object>) value : null;
  }

  static String string(Object value) {
    return value instanceof String text ? text : null;
  }

  /** The strings of a list; null if it is not a list, or has anything else. */
  static List<String> strings(Object value) {
    if (!(value instanceof List<?> list) || !list.stream().allMatch(String.class::isInstance))
      return null;
    return list.stream().map(String.class::cast).toList();
  }

  /** The objects of a list; null if it is not a list, or has anything else. */
  static List<Map<String, Object>> objects(Object value) {
    if (!(value instanceof List<?> list) || !list.stream().allMatch(Map.class::isInstance))
      return null;
    return list.stream().map(Json::object).toList();
  }

  /** A whole number from 0 that a double holds exactly; null for anything else. */
  static Long count(Object value) {
    if (!(value instanceof Number number)) return null;
    double given = number.doubleValue();
    return given >= 0 && given <= 9_007_199_254_740_991d && given == Math.rint(given)
        ? (Long) (long) given
        : null;
  }

  /**
   * Seconds since 1970, as milliseconds; null for anything else, and for times that no date has.
   */
  static Long unixTime(Object value) {
    if (!(value instanceof Number number) || !(Math.abs(number.doubleValue()) <= 8.64e12))
      return null;
    return Math.round(number.doubleValue() * 1000);
  }

  private Object value(int depth) {
    if (depth > MAX_DEPTH) throw malformed();
    return switch (peek()) {
      case '{' -> members(depth);
      case '[' -> elements(depth);
      case '"' -> string();
      case 't' -> word("true", true);
      case 'f' -> word("false", false);
      case 'n' -> word("null", null);
      default -> number();
    };
  }

  private Map<String, Object> members(int depth) {
    Map<String, Object> members = new LinkedHashMap<>();
    at++;
    if (skip('}')) return members;
    do {
      if (peek() != '"') throw malformed();
      String name = string();
      if (!skip(':')) throw malformed();
      members.put(name, value(depth + 1));
    } while (skip(','));
    if (!skip('}')) throw malformed();
    return members;
  }

  private List<Object> elements(int depth) {
    List<Object> elements = new ArrayList<>();
    at++;
    if (skip(']')) return elements;
    do elements.add(value(depth + 1));
    while (skip(','));
    if (!skip(']')) throw malformed();
    return elements;
  }

  private String string() {
    StringBuilder content = new StringBuilder();
    for (at++; at < text.length(); at++) {
      char next = text.charAt(at);
      if (next == '"') {
        at++;
        return content.toString();
      }
      if (next < ' ') throw malformed();
      content.append(next == '\\' ? escaped() : next);
    }
    throw malformed();
  }

  /** Reads the rest of an escape sequence but for its last character. */
  private char escaped() {
    at++;
    if (text.startsWith("u", at) && text.length() > at + 4) {
      String hex = text.substring(at + 1, at + 5);
      if (!hex.matches("[0-9a-fA-F]{4}")) throw malformed();
      at += 4;
      return (char) Integer.parseInt(hex, 16);
    }
    int which = at < text.length() ? ESCAPES.indexOf(text.charAt(at)) : -1;
    if (which < 0) throw malformed();
    return ESCAPED.charAt(which);
  }

  private Object word(String word, Object value) {
    if (!text.startsWith(word, at)) throw malformed();
    at += word.length();
    return value;
  }

  private Number number() {
    Matcher number = NUMBER.matcher(text).region(at, text.length());
    if (!number.lookingAt()) throw malformed();
    at = number.end();
    boolean isInteger =
        number.group(1) == null && number.group(2) == null && number.group().length() < 19;
    return isInteger
        ? (Number) Long.valueOf(number.group())
        : (Number) Double.valueOf(number.group());
  }

  /** The next character that is not blank; 0 at the end. */
  private char peek() {
    while (at < text.length() && " \t\r\n".indexOf(text.charAt(at)) >= 0) at++;
    return at < text.length() ? text.charAt(at) : 0;
  }

  private boolean skip(char expected) {
    if (peek() != expected) return false;
    at++;
    return true;
  }

  private IllegalArgumentException malformed() {
    return new IllegalArgumentException("not JSON at character " + at);
  }

  /** The text of a value. The entries of maps keep their order. */
  static String write(Object value) {
    StringBuilder text = new StringBuilder();
    write(value, text);
    return text.toString();
  }

  private static void write(Object value, StringBuilder text) {
    if (value instanceof Map<?, ?> map) {
      String before = "{";
      for (Map.Entry<?, ?> entry : map.entrySet()) {
        text.append(before);
        writeString(String.valueOf(entry.getKey()), text);
        write(entry.getValue(), text.append(':'));
        before = ",";
      }
      text.append(map.isEmpty() ? "{}" : "}");
    } else if (value instanceof List<?> list) {
      String before = "[";
      for (Object element : list) {
        write(element, text.append(before));
        before = ",";
      }
      text.append(list.isEmpty() ? "[]" : "]");
    } else if (value instanceof String string) {
      writeString(string, text);
    } else if (value instanceof Double number
        && number == Math.rint(number)
        && Math.abs(number) < 1e15) {
      text.append(number.longValue());
    } else {
      text.append(value);
    }
  }

  private static void writeString(String string, StringBuilder text) {
    text.append('"');
    for (int i = 0; i < string.length(); i++) {
      char next = string.charAt(i);
      int which = next == '/' ? -1 : ESCAPED.indexOf(next);
      if (which >= 0) text.append('\\').append(ESCAPES.charAt(which));
      else if (next < ' ' || isLoneSurrogate(string, i))
        text.append(String.format("\\u%04x", (int) next));
      else text.append(next);
    }
    text.append('"');
  }

  private static boolean isLoneSurrogate(String string, int at) {
    char character = string.charAt(at);
    if (Character.isHighSurrogate(character))
      return at + 1 == string.length() || !Character.isLowSurrogate(string.charAt(at + 1));
    return Character.isLowSurrogate(character)
        && (at == 0 || !Character.isHighSurrogate(string.charAt(at - 1)));
  }
}
