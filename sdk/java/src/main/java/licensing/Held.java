package licensing;

import static java.util.Comparator.comparing;
import static java.util.Comparator.comparingInt;
import static java.util.Comparator.comparingLong;
import static java.util.Comparator.naturalOrder;
import static java.util.Comparator.nullsFirst;

import java.util.Arrays;
import java.util.Comparator;
import java.util.HashMap;
import java.util.Map;
import java.util.Objects;

/**
 * The verified knowledge of an installation: a value, which never changes. {@link #merge} joins the
 * knowledge of two processes, {@link #observed} reads the clock, and the other methods add an
 * answer of the service ({@code sdk/README.md}, "What an answer changes").
 *
 * @param licence the part that is replaced as a whole, by the process that changed it last
 * @param keys the keys that verify texts of the service
 * @param revocationsById the known revocations, by licence id; the store keeps the entry of its
 *     token's licence
 */
record Held(Licence licence, Keys keys, Map<String, Revocations> revocationsById, SeenTime time) {

  /**
   * @param revision how often a process has replaced this part: the higher number is newer; 0: an
   *     empty store
   * @param legacyKey the legacy key that was exchanged for {@code key}
   * @param token the latest token, even if it has ended
   * @param refusal the reason with which the service last refused a token
   * @param nonce with which an offline file may set the time back; null if no file may
   */
  record Licence(
      long revision, String key, String legacyKey, Token token, String refusal, String nonce) {
    static Licence none(String key) {
      return new Licence(0, key, null, null, null, null);
    }

    Licence withRefusal(String reason) {
      return new Licence(revision, key, legacyKey, token, reason, nonce);
    }

    Licence withNonce(String text) {
      return new Licence(revision, key, legacyKey, token, refusal, text);
    }

    Licence withRevision(long number) {
      return new Licence(number, key, legacyKey, token, refusal, nonce);
    }

    /** If two processes replaced the licence at once, an activation that was freed stays freed. */
    private int standing() {
      return token != null ? 1 : revision == 0 ? 0 : 2;
    }

    private static final Comparator<Licence> AGE =
        comparingLong(Licence::revision)
            .thenComparingInt(Licence::standing)
            .thenComparing(
                Licence::token,
                nullsFirst(
                    comparingLong((Token token) -> token.claims.issuedAt())
                        .thenComparingLong(token -> token.claims.expiresAt())
                        .thenComparing(Token::text)));

    private Licence merge(Licence theirs) {
      int order = AGE.compare(this, theirs);
      if (order != 0) return order > 0 ? this : theirs;
      return new Licence(
          revision,
          later(key, theirs.key),
          later(legacyKey, theirs.legacyKey),
          token,
          later(refusal, theirs.refusal),
          later(nonce, theirs.nonce));
    }
  }

  /**
   * @param fileKeys the key set of the offline file that it came in; null for a token of the
   *     service
   * @param floating the activation held a lease of a floating licence when the token was issued
   * @param formerFingerprint the fingerprint that it was issued to, if this machine has another one
   *     since; else null
   */
  record Token(
      String jws, TokenClaims claims, Keys fileKeys, boolean floating, String formerFingerprint) {
    private String text() {
      return Json.write(
          Arrays.asList(
              jws, fileKeys == null ? null : fileKeys.jws(), floating, formerFingerprint));
    }
  }

  /**
   * @param list the list that was last accepted
   * @param namedBy an authentic list that names the licence: it is revoked, and no later answer
   *     changes that
   */
  record Revocations(HeldList list, String namedBy) {
    static final Revocations NONE = new Revocations(null, null);

    private Revocations merge(Revocations theirs) {
      return new Revocations(
          HeldList.later(list, theirs.list), Held.later(namedBy, theirs.namedBy));
    }
  }

  /**
   * @param content after its {@code expiresAt} it is outdated, even if an unsigned answer confirms
   *     it
   * @param etagSince the {@code since} of the request that the ETag answers
   * @param checkedAt when the service last said that this is the latest list; null before it was
   *     read to its end
   */
  record HeldList(RevocationList content, String etag, Long etagSince, Long checkedAt) {
    private HeldList checkedAt(Long time) {
      return new HeldList(content, etag, etagSince, time);
    }

    private static final Comparator<HeldList> AGE =
        comparing(
            HeldList::content,
            comparingLong(RevocationList::version)
                .thenComparingLong(RevocationList::issuedAt)
                .thenComparing(RevocationList::jws));
    private static final Comparator<HeldList> CONFIRMATION =
        comparing((HeldList list) -> list.checkedAt, nullsFirst(naturalOrder()))
            .thenComparing(HeldList::etagSince, nullsFirst(naturalOrder()))
            .thenComparing(HeldList::etag, nullsFirst(naturalOrder()));

    private static HeldList later(HeldList mine, HeldList theirs) {
      boolean isSame =
          mine != null && theirs != null && mine.content.jws().equals(theirs.content.jws());
      return Held.later(mine, theirs, isSame ? CONFIRMATION : AGE);
    }
  }

  private static final Comparator<Keys> KEYS_AGE =
      comparingLong(Keys::issuedAt)
          .thenComparing(comparingInt(keys -> keys.keys().size()))
          .thenComparing(keys -> Objects.toString(keys.jws(), "") + Json.write(keys.keys()));

  /** The knowledge of a client that was given a licence key, or none. */
  static Held empty(String licenceKey, long local) {
    return new Held(Licence.none(licenceKey), null, Map.of(), SeenTime.first(local));
  }

  /** The token of this machine; null if there is none. */
  Token token() {
    Token token = licence.token;
    return token != null && token.formerFingerprint == null ? token : null;
  }

  /** The claims of the token of this machine; null if there is none. */
  TokenClaims claims() {
    return token() == null ? null : token().claims;
  }

  /** The known revocations of the token's licence. */
  Revocations revocations() {
    return token() == null
        ? Revocations.NONE
        : revocationsById.getOrDefault(claims().licenceId(), Revocations.NONE);
  }

  boolean isRevoked() {
    return revocations().namedBy != null;
  }

  /** Reads the local clock. */
  Held observed(long local) {
    return withTime(time.observe(local));
  }

  /**
   * Joins the knowledge of two processes that share a store. Commutative, associative and
   * idempotent, so that neither the order of saves nor their number matters. Both times must have
   * been continued to the same local clock.
   */
  Held merge(Held theirs) {
    Map<String, Revocations> revocations = new HashMap<>(revocationsById);
    theirs.revocationsById.forEach((id, each) -> revocations.merge(id, each, Revocations::merge));
    return new Held(
        licence.merge(theirs.licence),
        laterKeys(keys, theirs.keys),
        Map.copyOf(revocations),
        time.merge(theirs.time));
  }

  /**
   * The later set. If both are of one second, the set with more keys, because a rotation adds a
   * key.
   */
  static Keys laterKeys(Keys mine, Keys theirs) {
    return later(mine, theirs, KEYS_AGE);
  }

  private static String later(String mine, String theirs) {
    return later(mine, theirs, naturalOrder());
  }

  /** The value with the higher rank. Null is the lowest. */
  private static <T> T later(T mine, T theirs, Comparator<? super T> rank) {
    if (mine == null || theirs == null) return mine == null ? theirs : mine;
    return rank.compare(mine, theirs) >= 0 ? mine : theirs;
  }

  /** Adds what the store has. The clock has been read before. */
  Held absorb(Held stored) {
    return merge(stored.withTime(time.admit(stored.time))).settled();
  }

  /**
   * Makes the parts of a value that was read or changed agree: the time is not before what the
   * service has signed, and nothing was confirmed in the future. A former time may have been ahead.
   */
  private Held settled() {
    HeldList list = revocations().list;
    SeenTime now = time;
    if (token() != null) now = now.notBefore(claims().issuedAt());
    if (list != null) now = now.notBefore(list.content.issuedAt());
    Keys settledKeys = keys;
    if (keys != null && keys.jws() == null)
      settledKeys =
          new Keys(null, keys.keys(), Math.min(keys.issuedAt(), now.time()), keys.expiresAt());
    Held settled = new Held(licence, settledKeys, revocationsById, now);
    if (list == null || list.checkedAt == null) return settled;
    return settled.withList(list.checkedAt(Math.min(list.checkedAt, now.time())));
  }

  /**
   * Adds a token.
   *
   * @param nonce of its request; null if there was none
   * @param trialKey the licence key of a new trial; null if it is none
   */
  Held token(Token token, String nonce, String trialKey) {
    String key = trialKey == null ? licence.key : trialKey;
    Licence next = new Licence(licence.revision + 1, key, licence.legacyKey, token, null, null);
    return new Held(next, keys, revocationsById, timeAfter(token, nonce)).settled();
  }

  /**
   * A token that answers this request sets the time, even if the clock is ahead, so that a clock
   * with a constant error does no harm. A file does that only with the nonce of the store, and sets
   * it to the local clock, because the file may be old. Any other token only shows that it is not
   * earlier.
   */
  private SeenTime timeAfter(Token token, String nonce) {
    long issuedAt = token.claims.issuedAt();
    if (nonce == null || !nonce.equals(token.claims.nonce())) return time.notBefore(issuedAt);
    long now = token.fileKeys == null ? issuedAt : Math.max(issuedAt, time.local());
    if (token() != null) now = Math.max(now, claims().issuedAt());
    if (revocations().list != null) now = Math.max(now, revocations().list.content.issuedAt());
    return time.correct(now);
  }

  /** Adds the reason of a refusal; null ends the last refusal. */
  Held refusal(String reason) {
    return withLicence(licence.withRefusal(reason));
  }

  /** The service freed the activation, or ended its lease. */
  Held freed() {
    return withLicence(
        new Licence(
            licence.revision + 1, licence.key, licence.legacyKey, null, null, licence.nonce));
  }

  /** A legacy key was exchanged. */
  Held exchange(String legacyKey, String licenceKey) {
    return withLicence(
        new Licence(
            licence.revision + 1, licenceKey, legacyKey, licence.token, null, licence.nonce));
  }

  Held keys(Keys keys) {
    return new Held(licence, keys, revocationsById, time);
  }

  /**
   * Adds an authentic list.
   *
   * @param since of the request
   */
  Held list(RevocationList list, String etag, Long since) {
    if (token() == null) return this;
    boolean isNamed = list.revoked().contains(claims().licenceId());
    Held known = isNamed ? withRevocations(new Revocations(revocations().list, list.jws())) : this;
    if (refusalOf(list) != null) return known;
    HeldList current = revocations().list;
    SeenTime now = time.notBefore(list.issuedAt());
    Long checkedAt = now.time();
    if (list.more()) checkedAt = current == null ? null : current.checkedAt;
    return known.withList(new HeldList(list, etag, since, checkedAt)).withTime(now);
  }

  /** The list held is the latest. */
  Held listUnchanged() {
    HeldList list = revocations().list;
    return list == null ? this : withList(list.checkedAt(time.time()));
  }

  /** Largest accepted difference between the service's clock and the trusted time. */
  private static final long TOLERANCE_MS = 300_000;

  /**
   * Why an authentic list may not replace the current one; null if it may. A licence that it names
   * is revoked in any case: a revocation is permanent, so an old list proves it as well as a new
   * one.
   */
  String refusalOf(RevocationList list) {
    HeldList current = revocations().list;
    if (list.expiresAt() + TOLERANCE_MS <= Math.max(time.time(), list.issuedAt()))
      return Reasons.LIST_EXPIRED;
    if (current != null && list.version() < current.content.version()) return Reasons.LIST_OUTDATED;
    if (list.since() != null && (current == null || list.since() > current.content.version()))
      return Reasons.LIST_GAP;
    return null;
  }

  /**
   * Whether the next request for an offline file needs a nonce, so that the file can set the time
   * back: nothing is granted, and the trusted time is ahead of the local clock. So an older file
   * never sets the time back.
   */
  boolean needsNonce() {
    return licence.nonce == null
        && time.isAhead()
        && (token() == null || time.time() >= claims().expiresAt());
  }

  /**
   * The time at which an answer to a request with this nonce is checked. A token with this nonce
   * was issued after the request: if the trusted time is ahead of the clock, the clock counts.
   * Nothing is verified here.
   */
  long timeFor(String jws, String nonce) {
    Map<String, Object> claims = SignedText.unverified(jws);
    Long issuedAt = Json.unixTime(claims.get("iat"));
    boolean isAnswer = nonce != null && nonce.equals(claims.get("nonce")) && issuedAt != null;
    return isAnswer ? Math.max(time.local(), issuedAt) : time.time();
  }

  Held withLicence(Licence next) {
    return new Held(next, keys, revocationsById, time);
  }

  private Held withTime(SeenTime next) {
    return new Held(licence, keys, revocationsById, next);
  }

  private Held withList(HeldList list) {
    return withRevocations(new Revocations(list, revocations().namedBy));
  }

  private Held withRevocations(Revocations revocations) {
    Map<String, Revocations> changed = new HashMap<>(revocationsById);
    changed.put(claims().licenceId(), revocations);
    return new Held(licence, keys, Map.copyOf(changed), time);
  }
}
