package licensing;

import java.util.ArrayList;
import java.util.List;
import java.util.function.ToLongFunction;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * An offline licence file: a token, and one or more signed key sets. Around it may be any text.
 * Inside, a mail program may have wrapped and quoted lines, and added blanks and invisible
 * characters.
 */
record LicenceFile(String jws, List<String> signed) {
  /**
   * Word processors and mail programs replace the hyphens of the first and the last line by dashes.
   */
  private static final String DASHES = "[-\\u2010-\\u2015\\u2212]";

  // Possessive quantifiers keep the time linear for any text.
  private static final Pattern BEGIN = compile("(?<!%1$s)%1$s++\\s*+BEGIN\\s++LICENCE\\s*+%1$s++");
  private static final Pattern END = compile("(?<!%1$s)%1$s{2,}+[\\s>]*+END\\s++LICENCE");

  /** Soft hyphens and characters without a width. */
  private static final Pattern INVISIBLE =
      Pattern.compile("[\\u00AD\\u200B-\\u200F\\u202A-\\u202E\\u2060-\\u2064\\uFEFF]");

  /**
   * The marks of a quoted line, or the end of a line that a mail program has wrapped ({@code =},
   * RFC 2045).
   */
  private static final Pattern MAIL_MARKS =
      Pattern.compile("^[\\s>&&[^\\r\\n]]++|=[\\s&&[^\\r\\n]]*+$|\\s", flags());

  /**
   * A compact JWS with a signature of 64 bytes (Ed25519), so that its end is known without the end
   * of a line.
   */
  private static final Pattern JWS =
      Pattern.compile("[A-Za-z0-9_-]++\\.[A-Za-z0-9_-]++\\.[A-Za-z0-9_-]{86}");

  private static Pattern compile(String pattern) {
    return Pattern.compile(pattern.formatted(DASHES), flags());
  }

  private static int flags() {
    return Pattern.CASE_INSENSITIVE | Pattern.MULTILINE | Pattern.UNICODE_CHARACTER_CLASS;
  }

  /** The first file in a text. */
  static LicenceFile parse(String text) throws Untrusted {
    String visible = text == null ? "" : INVISIBLE.matcher(text).replaceAll("");
    Matcher begin = BEGIN.matcher(visible);
    if (!begin.find()) throw new Untrusted(Reasons.FILE_MALFORMED);
    Matcher end = END.matcher(visible);
    if (!end.find(begin.end())) throw new Untrusted(Reasons.FILE_MALFORMED);
    String content = visible.substring(begin.end(), end.start());
    String joined = MAIL_MARKS.matcher(content).replaceAll("");
    List<String> texts = new ArrayList<>();
    JWS.matcher(joined).results().forEach(found -> texts.add(found.group()));
    if (texts.size() < 2 || !String.join("", texts).equals(joined))
      throw new Untrusted(Reasons.FILE_MALFORMED);
    return new LicenceFile(texts.get(0), texts.subList(1, texts.size()));
  }

  /**
   * The token of a file, with the keys of the file, if it is for this installation.
   *
   * @param timeFor the time at which a token is judged
   */
  static Held.Token read(String text, Identity identity, Held held, ToLongFunction<String> timeFor)
      throws Untrusted {
    if (identity.rootKeys().isUnpinned()) throw new Untrusted(Reasons.ROOT_KEY_REQUIRED);
    LicenceFile file = parse(text);
    var claimed = SignedText.unverified(file.jws);
    // This check only gives a better reason: a file of another application would not verify either.
    if (claimed.get("aud") instanceof String audience && !audience.equals(identity.appId()))
      throw new Untrusted(Reasons.FILE_OF_ANOTHER_APPLICATION);
    Keys keys = file.readKeys(identity);
    if (keys.areWithdrawn(file.jws, held.keys())) throw new Untrusted(Reasons.KEYS_OUTDATED);
    long time = timeFor.applyAsLong(file.jws);
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
