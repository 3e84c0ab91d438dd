package licensing;

import java.util.Locale;
import java.util.regex.Pattern;

/** Licence keys and legacy keys as somebody typed, copied or printed them. */
final class LicenceKey {
  /**
   * Blanks, control characters and characters without a mark, which regular expressions of Java do
   * not name ({@code Default_Ignorable_Code_Point}). NUL is not among them: it cannot be stored.
   */
  private static final String UNSEEN =
      "\\x01-\\x1F\\x7F-\\x9F\\u2800\\p{IsWhite_Space}\\u00AD\\u034F\\u061C\\u115F\\u1160\\u17B4\\u17B5\\u180B-\\u180F"
          + "\\u200B-\\u200F\\u202A-\\u202E\\u2060-\\u206F\\u3164\\uFE00-\\uFE0F\\uFEFF\\uFFA0\\uFFF0-\\uFFF8"
          + "\\x{1BCA0}-\\x{1BCA3}\\x{1D173}-\\x{1D17A}\\x{E0000}-\\x{E0FFF}";

  /**
   * Besides the punctuation: modifier minus, hyphen bullet, superscript, subscript, minus sign and
   * heavy minus.
   */
  private static final String DASH = "\\p{Pd}\\u02D7\\u2043\\u207B\\u208B\\u2212\\u2796";

  private static final Pattern SEPARATORS = Pattern.compile("[" + UNSEEN + DASH + "]+");
  private static final Pattern UNSEEN_AT_THE_ENDS =
      Pattern.compile("^[" + UNSEEN + "]++|(?<![" + UNSEEN + "])[" + UNSEEN + "]++\\z");

  private LicenceKey() {}

  /** Whether the service reads two texts as one key. */
  static boolean isSame(String one, String other) {
    String key = read(one);
    return one.equals(other) || (key != null && key.equals(read(other)));
  }

  /**
   * The key in the form in which it was issued, but for its hyphens; null if the text cannot be a
   * key. Case and separators do not count, and the letters that Crockford's base 32 does not have
   * are the digits that they resemble.
   */
  private static String read(String text) {
    String characters = SEPARATORS.matcher(text).replaceAll("");
    if (!characters.matches("[0-9A-Za-z]{25}")) return null;
    String key = characters.toUpperCase(Locale.ROOT).replace('O', '0').replaceAll("[IL]", "1");
    return key.contains("U") ? null : key;
  }

  /**
   * A text without blanks and invisible characters at both ends: legacy keys are compared and
   * stored like that.
   */
  static String trimUnseen(String text) {
    return UNSEEN_AT_THE_ENDS.matcher(text).replaceAll("");
  }
}
