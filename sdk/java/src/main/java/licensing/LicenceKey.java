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

  private static final Pattern UNSEEN_AT_THE_ENDS =
      Pattern.compile("^[" + UNSEEN + "]++|(?<![" + UNSEEN + "])[" + UNSEEN + "]++\\z");

  private LicenceKey() {}

  /**
   * Whether two texts are one key. Only letters and digits count, and letters that Crockford's base
   * 32 lacks are the digits that they resemble.
   */
  static boolean isSame(String one, String other) {
    return characters(one).equals(characters(other));
  }

  private static String characters(String key) {
    String plain = key.replaceAll("[^0-9A-Za-z]", "").toUpperCase(Locale.ROOT);
    return plain.replace('O', '0').replace('I', '1').replace('L', '1');
  }

  /**
   * A text without blanks and invisible characters at both ends: legacy keys are compared and
   * stored like that.
   */
  static String trimUnseen(String text) {
    return UNSEEN_AT_THE_ENDS.matcher(text).replaceAll("");
  }
}
