package licensing;

import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Objects;
import licensing.Attempts.Backoff;
import licensing.Attempts.Kind;
import licensing.Attempts.Trouble;
import licensing.Held.Token;
import licensing.LicenceState.Operation;
import licensing.Service.Call;

/**
 * The calls of a product: which requests each one sends, and what follows from each answer. They
 * read the two values of the session, and change them only by {@code apply} and {@code record}.
 */
final class Calls {
  /** The reasons of refusals, by operation. Any other refusal is a failure. */
  static final Map<Operation, Map<String, String>> REFUSALS =
      Map.of(
          Operation.ACTIVATE,
          Map.of(
              "404 not_found", Reasons.UNKNOWN_LICENCE_KEY,
              "409 limit_reached", Reasons.LIMIT_REACHED,
              "409 quota_exceeded", Reasons.QUOTA_EXCEEDED,
              "422 validation_failed", Reasons.INVALID_REQUEST),
          Operation.REFRESH,
          Map.of(
              // The activation is known, so only a lease can be missing.
              "409 limit_reached", Reasons.NO_PLACE,
              "401 unauthenticated", Reasons.TOKEN_REJECTED,
              "404 not_found", Reasons.ACTIVATION_FREED,
              "422 validation_failed", Reasons.INVALID_REQUEST),
          Operation.MIGRATE,
          Map.of(
              "404 not_found", Reasons.UNKNOWN_LEGACY_KEY,
              "422 validation_failed", Reasons.INVALID_REQUEST),
          Operation.START_TRIAL,
          Map.of(
              "404 not_found", Reasons.UNKNOWN_PLAN,
              "409 plan_archived", Reasons.PLAN_ARCHIVED,
              "409 limit_reached", Reasons.LIMIT_REACHED,
              "409 quota_exceeded", Reasons.QUOTA_EXCEEDED,
              "422 validation_failed", Reasons.INVALID_REQUEST));

  static final Map<String, String> FILE_REFUSALS =
      Map.of(
          Reasons.ROOT_KEY_REQUIRED, "offline files need a client with a rootKey",
          Reasons.FILE_MALFORMED, "the text is no offline licence file",
          Reasons.FILE_OF_ANOTHER_APPLICATION, "the file was made for another application",
          Reasons.FILE_OF_ANOTHER_MACHINE, "the file was made for another fingerprint",
          Reasons.FILE_EXPIRED, "the file is past its end",
          Reasons.FILE_OUTDATED, "the file is older than the one in use",
          Reasons.KEYS_OUTDATED, "the key that signed the file has been withdrawn",
          Reasons.UNTRUSTED_KEYS, "the file is not signed with a root key of this product",
          Reasons.UNTRUSTED_SIGNATURE, "the token is not signed by a key of the file",
          Reasons.UNSUPPORTED_RUNTIME, "this Java runtime does not support Ed25519");

  private static final Map<String, String> KEYS_REFUSALS =
      Map.of(
          Reasons.UNEXPECTED_ANSWER, "the keys have an unexpected form",
          Reasons.UNTRUSTED_KEYS, "the keys are not signed with a root key of this product",
          Reasons.KEYS_EXPIRED, "the signed keys are past their end, or the clock is ahead",
          Reasons.KEYS_OUTDATED, "the signed keys are older than those held",
          Reasons.UNSUPPORTED_RUNTIME, "this Java runtime does not support Ed25519");

  private final Session on;

  Calls(Session on) {
    this.on = on;
  }

  /** Gets a token, unless there is one that is valid. */
  void activate() {
    if (on.isUsable() || on.held().isRevoked()) return;
    boolean isRenewable = on.held().token() != null && on.held().licence().key() == null;
    if (isRenewable) refresh();
    else activateKey();
  }

  /** Activates the licence key, and receives a token. */
  private void activateKey() {
    if (on.held().licence().key() == null) {
      on.record(on.attempts().withAbsence(Reasons.NO_LICENCE_KEY));
      return;
    }
    if (isWaiting(Kind.TOKEN)) return;
    String nonce = on.newNonce();
    Answer answer = requestToken(nonce);
    String refusal = refusalIn(Operation.ACTIVATE, answer);
    boolean isFull =
        Reasons.LIMIT_REACHED.equals(refusal)
            || Reasons.NO_PLACE.equals(refusal)
            || Reasons.QUOTA_EXCEEDED.equals(refusal);
    if (isFull && freesFormerActivation()) answer = requestToken(nonce);
    Answer problem = receiveToken(answer, nonce, null);
    // If the vendor has given the licence another key, the activation and its expired token can
    // still be renewed.
    Token token = Reasons.UNKNOWN_LICENCE_KEY.equals(refusal) ? on.held().token() : null;
    boolean isRenewed = token != null && renewToken(token) == null;
    recordTokenOutcome(Operation.ACTIVATE, isRenewed ? null : problem);
  }

  private Answer requestToken(String nonce) {
    Map<String, Object> body = new LinkedHashMap<>();
    body.put("licence_key", on.held().licence().key());
    body.putAll(installation());
    body.put("nonce", nonce);
    return on.ask(Call.post("/v1/activations", body, null));
  }

  private Map<String, Object> installation() {
    Map<String, Object> body = new LinkedHashMap<>();
    body.put("fingerprint", on.identity().fingerprint());
    body.put("host", on.host());
    body.put("product_version", on.productVersion());
    return body;
  }

  /**
   * Frees the activation that this machine has under its former fingerprint. False if there is none
   * or it cannot be freed.
   */
  private boolean freesFormerActivation() {
    Token token = on.held().licence().token();
    if (token == null || token.formerFingerprint() == null) return false;
    return on.ask(Call.delete(pathOf(token), token.jws())).isGone();
  }

  /** Requests a new token for the activation. */
  void refresh() {
    Token token = on.held().token();
    if (token == null || isOfflineNow() || on.held().isRevoked() || isWaiting(Kind.TOKEN)) return;
    Answer problem = renewToken(token);
    String refusal = refusalIn(Operation.REFRESH, problem);
    boolean needsActivation =
        Reasons.TOKEN_REJECTED.equals(refusal) || Reasons.ACTIVATION_FREED.equals(refusal);
    // The activation was freed, or its token is too old. If there is a licence key, it is activated
    // again.
    if (needsActivation && on.held().licence().key() != null) activateKey();
    else recordTokenOutcome(Operation.REFRESH, problem);
  }

  /** Replaces the token by a new one of its activation; null if that worked. */
  private Answer renewToken(Token token) {
    String nonce = on.newNonce();
    Map<String, Object> body = versionAndHost();
    body.put("nonce", nonce);
    return receiveToken(
        on.ask(Call.post(pathOf(token) + "/refresh", body, token.jws())), nonce, null);
  }

  private Map<String, Object> versionAndHost() {
    Map<String, Object> body = new LinkedHashMap<>();
    body.put("product_version", on.productVersion());
    body.put("host", on.host());
    return body;
  }

  /** Tells the service that this installation is in use, whatever the licence's status. */
  void callHome() {
    Token token = on.held().token();
    if (token == null || isWaiting(Kind.TOKEN)) return;
    Answer answer = on.ask(Call.post(pathOf(token) + "/call-home", versionAndHost(), token.jws()));
    recordProblem(
        Operation.CALL_HOME, answer instanceof Answer.Success ? null : answer.asTrouble());
  }

  /** Ends the lease of a floating licence, and then the use of the token. The activation stays. */
  void release() {
    Token token = on.held().token();
    if (token == null || isOfflineNow() || isWaiting(Kind.TOKEN)) return;
    Answer answer = on.ask(Call.post(pathOf(token) + "/release", null, token.jws()));
    recordFreed(Operation.RELEASE, answer, token.floating() ? Reasons.RELEASED : null);
  }

  /** Frees the activation at the service, then deletes the token. */
  void deactivate() {
    Token token = on.held().token();
    if (token == null || isWaiting(Kind.TOKEN)) return;
    Answer answer = on.ask(Call.delete(pathOf(token), token.jws()));
    recordFreed(Operation.DEACTIVATE, answer, Reasons.DEACTIVATED);
  }

  private void recordFreed(Operation operation, Answer answer, String absence) {
    if (answer.isGone() && absence != null) {
      on.record(on.attempts().withNewToken().withAbsence(absence));
      on.apply(Held::freed);
    }
    recordOutcome(operation, Kind.TOKEN, answer.isGone() ? null : answer.asTrouble());
  }

  /** Starts a trial, or continues with the licence key of the trial that was started before. */
  void startTrial(String planCode) {
    if (on.isUsable() || on.held().isRevoked()) return;
    if (on.held().licence().key() != null) {
      activateKey();
      return;
    }
    if (isWaiting(Kind.TOKEN)) return;
    String nonce = on.newNonce();
    Map<String, Object> body = new LinkedHashMap<>();
    body.put("plan_code", planCode);
    body.putAll(installation());
    body.put("nonce", nonce);
    Answer answer = on.ask(Call.post(appPath() + "/trials", body, null));
    recordTokenOutcome(
        Operation.START_TRIAL, receiveToken(answer, nonce, answer.text("licence_key")));
  }

  /** Exchanges a legacy key for a licence key, once, and activates with that. */
  void migrate(String given) {
    String legacyKey = LicenceKey.trimUnseen(given);
    Held.Licence licence = on.held().licence();
    boolean isExchanged = legacyKey.equals(licence.legacyKey()) && licence.key() != null;
    if (isExchanged ? !on.isUsable() : exchanges(legacyKey)) activateKey();
  }

  private boolean exchanges(String legacyKey) {
    if (isWaiting(Kind.TOKEN)) return false;
    Answer answer =
        on.ask(Call.post(appPath() + "/migrate", Map.of("legacy_key", legacyKey), null));
    String licenceKey = answer.text("key");
    if (licenceKey != null) {
      on.apply(held -> held.exchange(legacyKey, licenceKey));
      recordOutcome(Operation.MIGRATE, Kind.TOKEN, null);
      return true;
    }
    if (on.held().token() == null) {
      recordTokenOutcome(Operation.MIGRATE, answer);
      return false;
    }
    // A failed exchange does not change the licence held.
    recordOutcome(Operation.MIGRATE, Kind.TOKEN, troubleIn(Operation.MIGRATE, answer));
    return false;
  }

  /**
   * Reads an offline licence file, without network. If the file is refused, the licence held stays.
   */
  void activateOffline(String text) {
    on.time();
    Held held = on.held();
    try {
      accept(LicenceFile.read(text, on.identity(), held), held.licence().nonce(), null);
      recordProblem(Operation.ACTIVATE_OFFLINE, null);
    } catch (Untrusted refused) {
      if (held.token() == null) {
        on.record(on.attempts().withAbsence(refused.code()).withFailure(null));
        on.apply(each -> each.refusal(null));
      }
      Trouble trouble = new Trouble(refused.code(), FILE_REFUSALS.get(refused.code()));
      recordProblem(Operation.ACTIVATE_OFFLINE, trouble);
    }
  }

  /**
   * A check reads at most this many answers, about a million licences. The next check goes on from
   * there.
   */
  private static final int MAX_ANSWERS = 64;

  /**
   * Reads the revocation list to its end: the additions since the current version, or the whole
   * list. What was received counts and is kept, also if a later answer fails. After a failure the
   * current list stays, at most until the token ends.
   */
  void check() {
    if (on.held().token() == null || on.held().isRevoked() || isWaiting(Kind.LIST)) return;
    Held.HeldList list = on.held().revocations().list();
    ListOutcome outcome = readListFrom(list == null ? null : list.content().version());
    // The service does not know the current version, or its list does not continue it: read the
    // whole list.
    if (outcome == ListOutcome.START_OVER) outcome = readListFrom(null);
    recordOutcome(Operation.CHECK, Kind.LIST, outcome.trouble);
  }

  /**
   * @param next the version from which the list goes on; null if reading it has ended
   * @param trouble how it ended; null if all is well
   */
  private record ListOutcome(Long next, Trouble trouble) {
    static final ListOutcome DONE = new ListOutcome(null, null);
    static final ListOutcome START_OVER =
        new ListOutcome(
            null, new Trouble(Reasons.LIST_GAP, "the list does not continue the stored one"));

    static ListOutcome failed(Answer answer) {
      return new ListOutcome(null, answer.asTrouble());
    }
  }

  private ListOutcome readListFrom(Long from) {
    Long since = from;
    for (int answers = 0; answers < MAX_ANSWERS; answers++) {
      ListOutcome outcome = requestList(since);
      if (outcome.next == null) return outcome;
      if (on.held().isRevoked()) return ListOutcome.DONE;
      since = outcome.next;
    }
    return ListOutcome.DONE;
  }

  private ListOutcome requestList(Long since) {
    Held.HeldList current = on.held().revocations().list();
    // A 304 is not signed, so a list that has ended must be read again.
    boolean isConfirmable =
        current != null
            && Objects.equals(current.etagSince(), since)
            && on.time() < current.content().expiresAt();
    String ifNoneMatch = isConfirmable ? current.etag() : null;
    String path = appPath() + "/revocations" + (since == null ? "" : "?since=" + since);
    Answer answer = on.ask(Call.get(path, ifNoneMatch));
    if (answer instanceof Answer.Refusal refusal && refusal.status() == 422 && since != null)
      return ListOutcome.START_OVER;
    if (!(answer instanceof Answer.Success success)) return ListOutcome.failed(answer);
    if (success.status() != 304 || ifNoneMatch == null) return receiveList(success, since);
    on.apply(Held::listUnchanged);
    return ListOutcome.DONE;
  }

  private ListOutcome receiveList(Answer.Success answer, Long since) {
    // Only the signed text is used; the other fields are for people.
    String jws = answer.text("signature");
    if (jws == null) return ListOutcome.failed(answer);
    RevocationList list;
    try {
      list = readSigned(() -> readList(jws), on.time());
    } catch (Failed failed) {
      return ListOutcome.failed(failed.answer);
    }
    on.time();
    String refusal = on.held().refusalOf(list);
    on.apply(held -> held.list(list, answer.etag(), since));
    boolean goesOn = list.more() && list.version() > (since == null ? -1 : since);
    // The first answers of a whole list have lower versions than the current one.
    if (goesOn && (refusal == null || refusal.equals(Reasons.LIST_OUTDATED)))
      return new ListOutcome(list.version(), null);
    if (refusal == null) return list.more() ? ListOutcome.failed(answer) : ListOutcome.DONE;
    if (refusal.equals(Reasons.LIST_GAP) && since != null) return ListOutcome.START_OVER;
    String detail = "version " + list.version() + " is expired, or not newer than the stored list";
    return new ListOutcome(null, new Trouble(refusal, detail));
  }

  private RevocationList readList(String jws) throws Untrusted {
    Keys keys = on.held().keys();
    if (keys != null && keys.expiresAt() <= on.time()) throw new Untrusted(Untrusted.UNKNOWN_KEY);
    return RevocationList.read(jws, keys, on.identity().appId());
  }

  // Steps that the calls share

  /**
   * Reads the token of an answer to a request with this nonce, and accepts it; null if it is valid.
   */
  private Answer receiveToken(Answer answer, String nonce, String trialKey) {
    if (!(answer instanceof Answer.Success)) return answer;
    String jws = answer.text("token");
    if (jws == null) return answer.asFailure();
    on.time();
    long time = on.held().timeFor(jws, nonce);
    TokenClaims claims;
    try {
      claims = readSigned(() -> readToken(jws, time), time);
    } catch (Failed failed) {
      return failed.answer;
    }
    boolean isOurs =
        claims.activationId().equals(answer.text("activation_id"))
            && claims.licenceId().equals(answer.text("licence_id"));
    if (!isOurs)
      return new Answer.Failure(
          Reasons.UNTRUSTED_SIGNATURE, "the token belongs to another activation");
    boolean floating = answer.text("lease_ends_at") != null;
    accept(new Token(jws, claims, null, floating, null), nonce, trialKey);
    // Fetches the keys before they end, so that a start without the network has keys for a valid
    // token. If this fails, the
    // token is accepted all the same.
    if (areKeysDue()) fetchKeys(time);
    return null;
  }

  private TokenClaims readToken(String jws, long time) throws Untrusted {
    Identity identity = on.identity();
    return TokenClaims.read(jws, on.held().keys(), identity.appId(), identity.fingerprint(), time);
  }

  private void accept(Token token, String nonce, String trialKey) {
    on.record(on.attempts().withNewToken());
    on.apply(held -> held.token(token, nonce, trialKey));
  }

  /**
   * Whether half of the life of the keys is over. They are renewed then, so that no token lasts
   * longer than its keys.
   */
  private boolean areKeysDue() {
    Keys keys = on.held().keys();
    return keys != null && on.time() >= keys.issuedAt() + (keys.expiresAt() - keys.issuedAt()) / 2;
  }

  /** Fetches the application's public keys and checks them at a time; null on success. */
  private Answer.Failure fetchKeys(long time) {
    Answer answer = on.ask(Call.get(appPath() + "/jwks.json", null));
    if (!(answer instanceof Answer.Success success)) return answer.asFailure();
    try {
      Keys keys = Keys.read(success.body(), on.identity(), on.held().keys(), time);
      on.apply(held -> held.keys(keys));
      return null;
    } catch (Untrusted refused) {
      return new Answer.Failure(refused.code(), KEYS_REFUSALS.get(refused.code()));
    }
  }

  private interface Reader<T> {
    T read() throws Untrusted;
  }

  private static final class Failed extends Exception {
    private static final long serialVersionUID = 1;
    private final transient Answer.Failure answer;

    Failed(Answer.Failure answer) {
      super(answer.detail(), null, false, false);
      this.answer = answer;
    }
  }

  /** Reads a signed text. If it is signed with an unknown key, the keys are fetched once. */
  private <T> T readSigned(Reader<T> text, long time) throws Failed {
    try {
      return text.read();
    } catch (Untrusted refused) {
      if (!refused.code().equals(Untrusted.UNKNOWN_KEY)) throw failed(refused);
    }
    Answer.Failure problem = fetchKeys(time);
    if (problem != null) throw new Failed(problem);
    try {
      return text.read();
    } catch (Untrusted refused) {
      throw failed(refused);
    }
  }

  private static Failed failed(Untrusted refused) {
    boolean isUnsupported = refused.code().equals(Reasons.UNSUPPORTED_RUNTIME);
    return new Failed(
        isUnsupported
            ? new Answer.Failure(Reasons.UNSUPPORTED_RUNTIME, KEYS_REFUSALS.get(refused.code()))
            : new Answer.Failure(
                Reasons.UNTRUSTED_SIGNATURE, "not signed by a key of this application"));
  }

  /** The refusal in an answer; null if there is none. */
  private static String refusalIn(Operation operation, Answer answer) {
    if (!(answer instanceof Answer.Refusal refusal)) return null;
    if (refusal.code().equals("licence_refused"))
      return refusal.reason() == null ? refusal.code() : refusal.reason();
    if (refusal.code().equals("limit_reached") && "max_concurrent".equals(refusal.reason()))
      return Reasons.NO_PLACE;
    return REFUSALS.get(operation).get(refusal.status() + " " + refusal.code());
  }

  /** Records a try to get a token: success (null), a refusal, or a failure. */
  private void recordTokenOutcome(Operation operation, Answer problem) {
    if (problem == null) {
      TokenClaims claims = on.held().claims();
      if (claims == null || on.time() < claims.refreshAfter()) {
        recordOutcome(operation, Kind.TOKEN, null);
        return;
      }
      // The new token is due for renewal already: another call would bring no better token, so the
      // next one waits.
      recordProblem(operation, null);
      waitAfter(Kind.TOKEN, null);
      return;
    }
    String refusal = refusalIn(operation, problem);
    if (refusal != null) on.apply(held -> held.refusal(refusal));
    on.record(on.attempts().withFailure(refusal == null ? problem.asFailure().reason() : null));
    recordOutcome(operation, Kind.TOKEN, troubleIn(operation, problem));
  }

  /** The refusal in an answer, or else why it is no valid answer. */
  private static Trouble troubleIn(Operation operation, Answer answer) {
    String refusal = refusalIn(operation, answer);
    return refusal != null && answer instanceof Answer.Refusal refused
        ? new Trouble(refusal, refused.detail())
        : answer.asTrouble();
  }

  /** Records how an operation ended, and when the next try of its kind may be. */
  private void recordOutcome(Operation operation, Kind kind, Trouble trouble) {
    recordProblem(operation, trouble);
    if (trouble == null) on.record(on.attempts().withBackoff(kind, Backoff.NONE));
    else waitAfter(kind, trouble.retryAfterMs());
  }

  /** Lets the next request of a kind wait, as after a failure. */
  private void waitAfter(Kind kind, Long retryAfterMs) {
    TokenClaims claims = on.held().claims();
    long maxMs = Backoff.MAX_DELAY_MS;
    if (claims != null && kind == Kind.LIST) maxMs = claims.checkIntervalMs();
    // A token of a short lease needs several tries between half of its life and its end.
    else if (claims != null) maxMs = (claims.expiresAt() - claims.issuedAt()) / 8;
    Backoff backoff = on.attempts().backoff(kind);
    on.record(
        on.attempts()
            .withBackoff(
                kind, backoff.afterFailure(on.time(), Math.random(), retryAfterMs, maxMs)));
  }

  private void recordProblem(Operation operation, Trouble trouble) {
    on.record(on.attempts().withProblem(operation, trouble, on.time()));
  }

  /** The service answered with a {@code Retry-After} that has not passed. */
  private boolean isWaiting(Kind kind) {
    return on.attempts().backoff(kind).isBlocked(on.time());
  }

  /**
   * Whether the valid token came in a file. Only another file renews it, because tokens of the
   * service are shorter.
   */
  private boolean isOfflineNow() {
    TokenClaims claims = on.held().claims();
    return claims != null && claims.offline() && on.time() < claims.expiresAt();
  }

  private String appPath() {
    return "/v1/apps/" + encoded(on.identity().appId());
  }

  private static String pathOf(Token token) {
    return "/v1/activations/" + encoded(token.claims().activationId());
  }

  private static String encoded(String segment) {
    return URLEncoder.encode(segment, StandardCharsets.UTF_8).replace("+", "%20");
  }
}
