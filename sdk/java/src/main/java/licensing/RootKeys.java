package licensing;

import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;

/**
 * The keys that must have signed other keys.
 *
 * @param keys as JWKs; null if the client is unpinned, which trusts all keys
 */
record RootKeys(List<Map<String, Object>> keys) {
  private static final String UNPINNED = "unpinned";

  /** 32 bytes in base64url: the last two bits of the last character are unused, and must be 0. */
  private static final Pattern ROOT_KEY =
      Pattern.compile("lrk_[A-Za-z0-9_-]{42}[AEIMQUYcgkosw048]");

  /**
   * @throws IllegalArgumentException if a key is missing or malformed, so that no product trusts
   *     any key by mistake
   */
  static RootKeys read(List<String> texts) {
    if (texts.equals(List.of(UNPINNED))) return new RootKeys(null);
    boolean areGood =
        texts.stream().allMatch(text -> text != null && ROOT_KEY.matcher(text).matches());
    if (texts.isEmpty() || !areGood)
      throw new IllegalArgumentException(
          "rootKey must be the application's root_key (GET /v1/apps/{app_id}), or several; \"unpinned\" does without, and lets"
              + " anyone who can edit the store license the product");
    // The kid of a root key is the text itself.
    return new RootKeys(
        texts.stream()
            .map(text -> Map.<String, Object>of("kid", text, "x", text.substring(4)))
            .toList());
  }

  boolean isUnpinned() {
    return keys == null;
  }
}
