package licensing

import (
	"cmp"
	"slices"
)

// storedRecord is the text of a store: JSON with these fields. It is not trusted, and everything in it is verified again.
type storedRecord struct {
	appID       string
	licenceKey  string
	legacyKey   string
	fingerprint string
	// token is nil if there is none.
	token      *string
	floating   bool
	refusal    string
	signedKeys string
	jwks       []publicKey
	jwksAt     int64
	fileKeys   string
	list       string
	namedBy    string
	etag       string
	etagSince  int64
	checkedAt  int64
	seen       seenTime
	revision   int64
	nonce      string
}

// fields reads the fields of an object, and notes if one has another type than it must have.
type fields struct {
	values object
	isBad  bool
}

// field reads a field. If it is absent, its default counts, or the record is bad if it has none.
func field[T any](from *fields, name string, read func(any) (T, bool), whenAbsent ...T) T {
	value, isThere := from.values[name]
	if !isThere && len(whenAbsent) > 0 {
		return whenAbsent[0]
	}
	found, isRight := read(value)
	if !isThere || !isRight {
		from.isBad = true
	}
	return found
}

func textIn(value any) (string, bool) {
	text, isText := value.(string)
	return text, isText
}

func textOrNullIn(value any) (string, bool) {
	text, isText := value.(string)
	return text, isText || value == nil
}

func boolIn(value any) (bool, bool) {
	found, isBoolean := value.(bool)
	return found, isBoolean
}

func timestampIn(value any) (int64, bool) {
	text, isText := value.(string)
	ms, isTime := parseTime(text)
	return ms, isText && isTime
}

func objectOrNullIn(value any) (object, bool) {
	found, isObject := value.(object)
	return found, isObject || value == nil
}

func keysOrNullIn(value any) ([]publicKey, bool) {
	set, isObject := objectOrNullIn(value)
	if set == nil {
		return nil, isObject
	}
	return objectsIn(set["keys"])
}

// sinceIn reads a number or null. A number that is no version counts as null.
func sinceIn(value any) (int64, bool) {
	if since, isCount := countIn(value); isCount {
		return since, true
	}
	_, isNumber := value.(float64)
	return wholeList, isNumber || value == nil
}

// parseRecord reads the text of the store. A record with a field of another type is ignored as a whole.
func parseRecord(text []byte) (storedRecord, bool) {
	values := parseObject(text)
	if values == nil || values["format"] != 1.0 {
		return storedRecord{}, false
	}
	from := &fields{values: values}
	record := storedRecord{
		appID:       field(from, "app_id", textIn),
		licenceKey:  field(from, "licence_key", textOrNullIn),
		legacyKey:   field(from, "legacy_key", textOrNullIn),
		fingerprint: field(from, "fingerprint", textIn),
		floating:    field(from, "floating", boolIn, false),
		refusal:     field(from, "refusal", textOrNullIn),
		signedKeys:  field(from, "signed_keys", textOrNullIn, ""),
		jwks:        field(from, "jwks", keysOrNullIn),
		jwksAt:      field(from, "jwks_at", timestampIn, 0),
		fileKeys:    field(from, "file_keys", textOrNullIn, ""),
		revision:    field(from, "revision", countIn, 0),
		nonce:       field(from, "nonce", textOrNullIn, ""),
	}
	if token := field(from, "token", textOrNullIn); values["token"] != nil {
		record.token = &token
	}
	if revoked := field(from, "revocations", objectOrNullIn); revoked != nil {
		inner := &fields{values: revoked}
		record.list = field(inner, "list", textOrNullIn)
		record.namedBy = field(inner, "named_by", textOrNullIn)
		record.etag = field(inner, "etag", textOrNullIn)
		record.etagSince = field(inner, "etag_since", sinceIn)
		record.checkedAt = field(inner, "checked_at", timestampIn)
		from.isBad = from.isBad || inner.isBad
	}
	seen, _ := values["seen"].(object)
	inner := &fields{values: seen}
	record.seen = seenTime{
		time:        field(inner, "time", timestampIn),
		local:       field(inner, "local", timestampIn),
		turnedBack:  field(inner, "turned_back", boolIn, false),
		corrections: field(inner, "corrections", countIn, 0),
	}
	return record, !from.isBad && !inner.isBad
}

// found is the content of the store, as read for this installation.
type found struct {
	// held is the verified content, as far as it is for this installation.
	held held
	// absence says why the store has no token for this installation; empty if it has, or if it never had one.
	absence Reason
	// foreignRevision is the revision of a record of another licence key or machine, which must not be overwritten by an older
	// one; noRevision if it is ours.
	foreignRevision int64
}

const noRevision = -1

// readRecord reads and verifies the text of the store; nil if there is none. mine is the knowledge so far, after the clock was
// read.
func readRecord(text []byte, mine held, of identity) found {
	nothing := found{held: emptyHeld(of.licenceKey, mine.time.local), foreignRevision: noRevision}
	if text == nil {
		return nothing
	}
	record, isRecord := parseRecord(text)
	if !isRecord {
		nothing.absence = ReasonStoreCorrupt
		return nothing
	}
	if record.appID != of.appID {
		return nothing
	}
	now := mergeTimes(mine.time, record.seen.admitted(mine.time)).time
	storedKeys := readStoredKeys(record, of)
	keys := mergeKeys(mine.keys, storedKeys)
	stored := readLicence(record, mine, of, keys, now)
	stored.held.keys, stored.held.time = storedKeys, record.seen
	stored.held.revocations = readRevocations(record, stored.held, mine, keys, of.appID)
	return stored
}

// readStoredKeys verifies the keys in the store like those of the service, but for their age; nil if there are none.
func readStoredKeys(record storedRecord, of identity) *keySet {
	if of.isUnpinned() {
		if record.jwks == nil {
			return nil
		}
		return unsignedKeys(record.jwks, record.jwksAt)
	}
	keys := readSignedKeys(record.signedKeys, of)
	if keys == nil || !keys.isFromService() {
		return nil
	}
	return keys
}

// readLicence reads the licence of a record. That of another key or machine is not ours, unless this machine has none yet.
func readLicence(record storedRecord, mine held, of identity, keys *keySet, now int64) found {
	none := held{licence: licence{key: of.licenceKey}}
	if of.licenceKey != "" && record.licenceKey != "" && !isSameKey(of.licenceKey, record.licenceKey) {
		return found{none, ReasonLicenceKeyChanged, record.revision}
	}
	ours := held{licence: licence{
		revision:  record.revision,
		key:       cmp.Or(of.licenceKey, record.licenceKey),
		legacyKey: record.legacyKey,
		nonce:     record.nonce,
	}}
	if record.token == nil {
		return found{ours, "", noRevision}
	}
	hasToken := mine.token() != nil
	latest := readStoredToken(record, keys, of, now)
	switch {
	case latest == nil && hasToken:
		return found{none, ReasonStoreCorrupt, noRevision}
	case latest == nil:
		return found{ours, ReasonStoreCorrupt, noRevision}
	}
	latest.floating = record.floating
	if record.fingerprint == of.fingerprint {
		ours.licence.latest, ours.licence.refusal = latest, Reason(record.refusal)
		return found{ours, "", noRevision}
	}
	if hasToken {
		return found{none, "", record.revision}
	}
	latest.formerFingerprint, latest.isFormer = record.fingerprint, true
	ours.licence.latest = latest
	return found{ours, ReasonFingerprintChanged, noRevision}
}

// readRevocations reads the lists of a record. A list that names a licence counts for that, whatever else the record says, and
// even if its keys have ended; the list held is for the record's licence.
func readRevocations(record storedRecord, stored, mine held, keys *keySet, appID string) map[string]revocations {
	list, _ := readList(record.list, keys, appID)
	namedBy, _ := readList(record.namedBy, keys, appID)
	known := map[string]revocations{}
	for _, of := range []*token{mine.token(), stored.licence.latest} {
		if of == nil {
			continue
		}
		id := of.claims.licenceID
		entry := revocations{}
		for _, naming := range []*revocationList{list, namedBy} {
			if naming != nil && slices.Contains(naming.revoked, id) {
				entry.namedBy = naming.jws
			}
		}
		if list != nil && of == stored.licence.latest {
			entry.list = &heldList{
				jws: list.jws, version: list.version, more: list.more,
				issuedAt: list.issuedAt, expiresAt: list.expiresAt,
				etag: record.etag, etagSince: record.etagSince, checkedAt: record.checkedAt,
			}
		}
		known[id] = entry
	}
	return known
}

// The text that the store keeps, with its fields in the order in which all languages write them.
type recordJSON struct {
	Format      int              `json:"format"`
	AppID       string           `json:"app_id"`
	LicenceKey  *string          `json:"licence_key"`
	LegacyKey   *string          `json:"legacy_key"`
	Fingerprint string           `json:"fingerprint"`
	Token       *string          `json:"token"`
	Floating    bool             `json:"floating"`
	Refusal     *string          `json:"refusal"`
	SignedKeys  *string          `json:"signed_keys"`
	JWKS        *jwksJSON        `json:"jwks"`
	JWKSAt      string           `json:"jwks_at"`
	FileKeys    *string          `json:"file_keys"`
	Revocations *revocationsJSON `json:"revocations"`
	Seen        seenJSON         `json:"seen"`
	Revision    int64            `json:"revision"`
	Nonce       *string          `json:"nonce"`
}

type jwksJSON struct {
	Keys []publicKey `json:"keys"`
}

type revocationsJSON struct {
	List      *string `json:"list"`
	NamedBy   *string `json:"named_by"`
	ETag      *string `json:"etag"`
	ETagSince *int64  `json:"etag_since"`
	CheckedAt string  `json:"checked_at"`
}

type seenJSON struct {
	Time        string `json:"time"`
	Local       string `json:"local"`
	TurnedBack  bool   `json:"turned_back"`
	Corrections int64  `json:"corrections"`
}

// writeRecord is the text that the store keeps.
func writeRecord(h held, of identity) []byte {
	record := recordJSON{
		Format:      1,
		AppID:       of.appID,
		LicenceKey:  orNull(h.licence.key),
		LegacyKey:   orNull(h.licence.legacyKey),
		Fingerprint: of.fingerprint,
		JWKSAt:      formatTime(0),
		Revocations: writeRevocations(h),
		Seen: seenJSON{
			formatTime(h.time.time), formatTime(h.time.local), h.time.turnedBack, h.time.corrections,
		},
		Revision: h.licence.revision,
		Nonce:    orNull(h.licence.nonce),
	}
	if latest := h.licence.latest; latest != nil {
		record.Token, record.Floating = &latest.jws, latest.floating
		if latest.fileKeys != nil {
			record.FileKeys = &latest.fileKeys.jws
		}
		if latest.isFormer {
			record.Fingerprint = latest.formerFingerprint
		} else {
			record.Refusal = orNull(string(h.licence.refusal))
		}
	}
	if h.keys != nil && h.keys.jws != "" {
		record.SignedKeys = &h.keys.jws
	} else if h.keys != nil {
		record.JWKS, record.JWKSAt = &jwksJSON{h.keys.keys}, formatTime(h.keys.issuedAt)
	}
	return []byte(encodeJSON(record))
}

func writeRevocations(h held) *revocationsJSON {
	of := h.revocationsOfToken()
	if of.list == nil && of.namedBy == "" {
		return nil
	}
	written := &revocationsJSON{NamedBy: orNull(of.namedBy), CheckedAt: formatTime(h.time.time)}
	if list := of.list; list != nil {
		written.List, written.ETag = &list.jws, orNull(list.etag)
		if list.etagSince != wholeList {
			written.ETagSince = &list.etagSince
		}
		if list.checkedAt != noTime {
			written.CheckedAt = formatTime(list.checkedAt)
		}
	}
	return written
}

func orNull(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}
