package licensing;

import java.util.List;
import java.util.regex.MatchResult;
import java.util.regex.Pattern;

/**
 * An offline licence file: a token, and one or more signed key sets. Around it may be any text.
 * Inside, a mail program may have wrapped and quoted lines, and added blanks and invisible
 * characters.
 */
record LicenceFile(String jws, List<String> signed) {
  /** Word processors and mail programs replace hyphens by other dashes. */
  private static final Pattern DASHES = Pattern.compile("[\\u2010-\\u2015\\u2212]");

  /**
   * White space, marks of quoted and wrapped lines, and what else stands between the characters of
   * a file.
   */
  private static final Pattern NOISE = Pattern.compile("[^A-Za-z0-9_.-]+");

  private static final Pattern LINES =
      Pattern.compile("-(?:BEGIN|END)LICENCE", Pattern.CASE_INSENSITIVE);

  /**
   * A compact JWS with a signature of 64 bytes (Ed25519), so that its end is known without the end
   * of a line. {@code \\G}: the next one begins where it ends.
   */
  private static final Pattern JWS =
      Pattern.compile("\\G[A-Za-z0-9_-]++\\.[A-Za-z0-9_-]++\\.[A-Za-z0-9_-]{86}");

  /**
   * The first file in a text. Each step takes a time that grows with the length of the text only,
   * whatever somebody pasted.
   */
  static LicenceFile parse(String text) throws Untrusted {
    String plain = DASHES.matcher(text == null ? "" : text).replaceAll("-");
    String[] parts = LINES.split(NOISE.matcher(plain).replaceAll(""), 3);
    String content = parts.length < 3 ? "" : parts[1].substring(countDashes(parts[1]));
    List<String> texts = JWS.matcher(content).results().map(MatchResult::group).toList();
    String rest = content.substring(texts.stream().mapToInt(String::length).sum());
    if (texts.size() < 2 || countDashes(rest) < rest.length())
      throw new Untrusted(Reasons.FILE_MALFORMED);
    return new LicenceFile(texts.get(0), texts.subList(1, texts.size()));
  }

  /** The number of hyphens at the beginning of a text. */
  private static int countDashes(String text) {
    return (int) text.chars().takeWhile(character -> character == '-').count();
  }

  /** The token of a file, with the keys of the file, if it is for this installation. */
  static Held.Token read(String text, Identity identity, Held held) throws Untrusted {
    if (identity.rootKeys().isUnpinned()) throw new Untrusted(Reasons.ROOT_KEY_REQUIRED);
    LicenceFile file = parse(text);
    var claimed = SignedText.unverified(file.jws);
    // This check only gives a better reason: a file of another application would not verify either.
    if (claimed.get("aud") instanceof String audience && !audience.equals(identity.appId()))
      throw new Untrusted(Reasons.FILE_OF_ANOTHER_APPLICATION);
    Keys keys = file.readKeys(identity);
    if (keys.areWithdrawn(file.jws, held.keys())) throw new Untrusted(Reasons.KEYS_OUTDATED);
    long time = held.timeFor(file.jws, held.licence().nonce());
    TokenClaims claims =
        readClaims(file.jws, keys, identity, Json.string(claimed.get("fingerprint")));
    requireUsable(claims, keys, identity, held.token(), time);
    return new Held.Token(file.jws, claims, keys, false, null);
  }

  /** The first key set that is signed with a root key. */
  private Keys readKeys(Identity identity) throws Untrusted {
    String refusal = Reasons.UNTRUSTED_KEYS;
    for (String jws : signed) {
      try {
        return Keys.readSigned(jws, identity);
      } catch (Untrusted refused) {
        if (refused.code().equals(Reasons.UNSUPPORTED_RUNTIME)) refusal = refused.code();
      }
    }
    throw new Untrusted(refusal);
  }

  /**
   * The token must be authentic before its fingerprint and its end are compared, for a reason that
   * is true.
   */
  private static TokenClaims readClaims(String jws, Keys keys, Identity identity, String machine)
      throws Untrusted {
    try {
      return TokenClaims.read(jws, keys, identity.appId(), machine, -Keys.NEVER);
    } catch (Untrusted refused) {
      boolean isUnsupported = refused.code().equals(Reasons.UNSUPPORTED_RUNTIME);
      throw isUnsupported ? refused : new Untrusted(Reasons.UNTRUSTED_SIGNATURE);
    }
  }

  private static void requireUsable(
      TokenClaims claims, Keys keys, Identity identity, Held.Token held, long time)
      throws Untrusted {
    if (!claims.offline()) throw new Untrusted(Reasons.FILE_MALFORMED);
    if (!identity.fingerprint().equals(claims.fingerprint()))
      throw new Untrusted(Reasons.FILE_OF_ANOTHER_MACHINE);
    if (Math.min(claims.expiresAt(), keys.expiresAt()) <= time)
      throw new Untrusted(Reasons.FILE_EXPIRED);
    TokenClaims current = held == null ? null : held.claims();
    boolean isReplacement =
        current != null
            && current.offline()
            && current.expiresAt() > time
            && current.activationId().equals(claims.activationId());
    if (isReplacement && current.issuedAt() > claims.issuedAt())
      throw new Untrusted(Reasons.FILE_OUTDATED);
  }
}
