package licensing;

import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.stream.Stream;
import licensing.Held.HeldList;
import licensing.Held.Licence;
import licensing.Held.Revocations;
import licensing.Held.Token;

/**
 * The text of a store: JSON with these fields ({@code sdk/README.md}, "The store"). It is not
 * trusted, and everything in it is verified again.
 */
record StoredRecord(
    String appId,
    String licenceKey,
    String legacyKey,
    String fingerprint,
    String token,
    boolean floating,
    String refusal,
    String signedKeys,
    List<Map<String, Object>> jwks,
    long jwksAt,
    String fileKeys,
    StoredRevocations revocations,
    SeenTime seen,
    long revision,
    String nonce) {

  record StoredRevocations(
      String list, String namedBy, String etag, Long etagSince, long checkedAt) {}

  /**
   * The content of the store, as read for this installation.
   *
   * @param held the verified content, as far as it is for this installation
   * @param absence why the store has no token for this installation; null if it has, or if it never
   *     had one
   * @param foreignRevision the revision of a record of another licence key or machine, which must
   *     not be overwritten by an older one; null if it is ours
   */
  record Found(Held held, String absence, Long foreignRevision) {}

  /** A record with a missing field, or one of another type, is malformed as a whole. */
  private record Fields(Map<String, Object> values) {
    Fields {
      require(values != null);
    }

    private static void require(boolean isRight) {
      if (!isRight) throw new IllegalArgumentException("the record is malformed");
    }

    private <T> T given(T value) {
      require(value != null);
      return value;
    }

    String text(String name) {
      return given(Json.string(values.get(name)));
    }

    String textOrNull(String name) {
      require(values.containsKey(name));
      return values.get(name) == null ? null : text(name);
    }

    String textOrAbsent(String name) {
      return values.get(name) == null ? null : text(name);
    }

    boolean flag(String name) {
      return given(values.getOrDefault(name, false) instanceof Boolean flag ? flag : null);
    }

    long count(String name) {
      return given(Json.count(values.getOrDefault(name, 0L)));
    }

    long time(String name) {
      return given(Times.parseIso(text(name)));
    }

    Fields object(String name) {
      return new Fields(Json.object(values.get(name)));
    }

    Fields objectOrNull(String name) {
      require(values.containsKey(name));
      return values.get(name) == null ? null : object(name);
    }
  }

  /**
   * @throws IllegalArgumentException if the text is not a record
   */
  private static StoredRecord parse(String text) {
    Fields fields = new Fields(Json.object(Json.parse(text)));
    Fields.require(Objects.equals(Json.count(fields.values.get("format")), 1L));
    Fields jwks = fields.objectOrNull("jwks");
    Fields seen = fields.object("seen");
    return new StoredRecord(
        fields.text("app_id"),
        fields.textOrNull("licence_key"),
        fields.textOrNull("legacy_key"),
        fields.text("fingerprint"),
        fields.textOrNull("token"),
        fields.flag("floating"),
        fields.textOrNull("refusal"),
        fields.textOrAbsent("signed_keys"),
        jwks == null ? null : fields.given(Json.objects(jwks.values.get("keys"))),
        fields.values.containsKey("jwks_at") ? fields.time("jwks_at") : 0,
        fields.textOrAbsent("file_keys"),
        parseRevocations(fields.objectOrNull("revocations")),
        new SeenTime(
            seen.time("time"),
            seen.time("local"),
            seen.flag("turned_back"),
            seen.count("corrections")),
        fields.count("revision"),
        fields.textOrAbsent("nonce"));
  }

  private static StoredRevocations parseRevocations(Fields fields) {
    if (fields == null) return null;
    Object etagSince = fields.values.get("etag_since");
    Fields.require(
        fields.values.containsKey("etag_since")
            && (etagSince == null || etagSince instanceof Number));
    return new StoredRevocations(
        fields.textOrNull("list"),
        fields.textOrNull("named_by"),
        fields.textOrNull("etag"),
        etagSince == null ? null : (Long) ((Number) etagSince).longValue(),
        fields.time("checked_at"));
  }

  /**
   * Reads and verifies the text of the store.
   *
   * @param text null if the store is empty
   * @param mine the knowledge so far, after the clock was read
   */
  static Found read(String text, Held mine, Identity identity) {
    Held nothing = Held.empty(identity.licenceKey(), mine.time().local());
    if (text == null) return new Found(nothing, null, null);
    StoredRecord stored;
    try {
      stored = parse(text);
    } catch (IllegalArgumentException malformed) {
      return new Found(nothing, Reasons.STORE_CORRUPT, null);
    }
    if (!stored.appId.equals(identity.appId())) return new Found(nothing, null, null);
    return stored.verified(mine, identity);
  }

  private Found verified(Held mine, Identity identity) {
    long now = mine.time().merge(mine.time().admit(seen)).time();
    Keys storedKeys = Keys.readStored(this, identity);
    Keys keys = Held.laterKeys(mine.keys(), storedKeys);
    FoundLicence found = readLicence(mine, identity, keys, now);
    Map<String, Revocations> lists =
        readRevocations(keys, identity.appId(), found.licence.token(), mine.token());
    Held held = new Held(found.licence, storedKeys, lists, seen);
    return new Found(held, found.absence, found.foreignRevision);
  }

  private record FoundLicence(Licence licence, String absence, Long foreignRevision) {}

  /**
   * The licence of a record. That of another key or machine is not ours, unless this machine has
   * none yet.
   */
  private FoundLicence readLicence(Held mine, Identity identity, Keys keys, long now) {
    String given = identity.licenceKey();
    Licence none = Licence.none(given);
    if (given != null && licenceKey != null && !LicenceKey.isSame(given, licenceKey))
      return new FoundLicence(none, Reasons.LICENCE_KEY_CHANGED, revision);

    String key = given != null ? given : licenceKey;
    Licence licence = new Licence(revision, key, legacyKey, null, null, nonce);
    if (token == null) return new FoundLicence(licence, null, null);
    boolean isOurs = fingerprint.equals(identity.fingerprint());
    Token read = readToken(identity, keys, now, isOurs ? null : fingerprint);
    if (read == null)
      return new FoundLicence(mine.token() != null ? none : licence, Reasons.STORE_CORRUPT, null);
    Licence licensed = new Licence(revision, key, legacyKey, read, isOurs ? refusal : null, nonce);
    if (isOurs) return new FoundLicence(licensed, null, null);
    if (mine.token() != null) return new FoundLicence(none, null, revision);
    return new FoundLicence(licensed, Reasons.FINGERPRINT_CHANGED, null);
  }

  /**
   * The token, verified with the keys of the service or of the file that it came in; null if it is
   * not authentic.
   */
  private Token readToken(Identity identity, Keys keys, long now, String formerFingerprint) {
    try {
      Keys ofFile = fileKeys == null ? null : Keys.readSigned(fileKeys, identity);
      if (ofFile != null && ofFile.areWithdrawn(token, keys)) return null;
      Keys used = ofFile == null ? keys : ofFile;
      TokenClaims claims = TokenClaims.read(token, used, identity.appId(), fingerprint, now);
      if (ofFile != null && !claims.offline()) return null;
      return new Token(token, claims, ofFile, floating, formerFingerprint);
    } catch (Untrusted refused) {
      return null;
    }
  }

  /**
   * A list that names a licence counts for that, whatever else the record says; the list held is
   * for the record's licence. The keys of a list may have ended, because a licence that a list
   * names stays revoked.
   */
  private Map<String, Revocations> readRevocations(
      Keys keys, String appId, Token ours, Token mine) {
    if (revocations == null) return Map.of();
    List<RevocationList> lists =
        Stream.of(revocations.namedBy, revocations.list)
            .map(jws -> readList(jws, keys, appId))
            .filter(Objects::nonNull)
            .toList();
    Map<String, Revocations> found = new HashMap<>();
    for (Token token : Arrays.asList(mine, ours)) {
      if (token == null) continue;
      String id = token.claims().licenceId();
      String namedBy =
          lists.stream()
              .filter(list -> list.revoked().contains(id))
              .map(RevocationList::jws)
              .findFirst()
              .orElse(null);
      boolean isOfRecord = ours != null && id.equals(ours.claims().licenceId());
      found.put(id, new Revocations(isOfRecord ? held(lists) : null, namedBy));
    }
    return Map.copyOf(found);
  }

  private static RevocationList readList(String jws, Keys keys, String appId) {
    try {
      return jws == null ? null : RevocationList.read(jws, keys, appId);
    } catch (Untrusted refused) {
      return null;
    }
  }

  private HeldList held(List<RevocationList> lists) {
    StoredRevocations stored = revocations;
    return lists.stream()
        .filter(list -> list.jws().equals(stored.list))
        .map(list -> new HeldList(list, stored.etag, stored.etagSince, stored.checkedAt))
        .findFirst()
        .orElse(null);
  }

  /** The text that the store keeps. */
  static String write(Held held, Identity identity) {
    Licence licence = held.licence();
    Token token = licence.token();
    Keys keys = held.keys();
    boolean areUnsigned = keys != null && keys.jws() == null;
    boolean isFormer = token != null && token.formerFingerprint() != null;
    Map<String, Object> fields = new LinkedHashMap<>();
    fields.put("format", 1);
    fields.put("app_id", identity.appId());
    fields.put("licence_key", licence.key());
    fields.put("legacy_key", licence.legacyKey());
    fields.put("fingerprint", isFormer ? token.formerFingerprint() : identity.fingerprint());
    fields.put("token", token == null ? null : token.jws());
    fields.put("floating", token != null && token.floating());
    fields.put("refusal", held.token() == null ? null : licence.refusal());
    fields.put("signed_keys", keys == null ? null : keys.jws());
    fields.put("jwks", areUnsigned ? Map.of("keys", keys.keys()) : null);
    fields.put("jwks_at", Times.iso(areUnsigned ? keys.issuedAt() : 0));
    fields.put(
        "file_keys", token == null || token.fileKeys() == null ? null : token.fileKeys().jws());
    fields.put("revocations", writeRevocations(held));
    fields.put("seen", writeTime(held.time()));
    fields.put("revision", licence.revision());
    fields.put("nonce", licence.nonce());
    return Json.write(fields);
  }

  private static Map<String, Object> writeRevocations(Held held) {
    Revocations revocations = held.revocations();
    HeldList list = revocations.list();
    if (list == null && revocations.namedBy() == null) return null;
    boolean isChecked = list != null && list.checkedAt() != null;
    Map<String, Object> fields = new LinkedHashMap<>();
    fields.put("list", list == null ? null : list.content().jws());
    fields.put("named_by", revocations.namedBy());
    fields.put("etag", list == null ? null : list.etag());
    fields.put("etag_since", list == null ? null : list.etagSince());
    fields.put("checked_at", Times.iso(isChecked ? list.checkedAt() : held.time().time()));
    return fields;
  }

  private static Map<String, Object> writeTime(SeenTime time) {
    Map<String, Object> fields = new LinkedHashMap<>();
    fields.put("time", Times.iso(time.time()));
    fields.put("local", Times.iso(time.local()));
    fields.put("turned_back", time.turnedBack());
    fields.put("corrections", time.corrections());
    return fields;
  }
}
