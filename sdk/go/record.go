package licensing

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
)

// storedRecord is the text of a store: JSON with these fields, in the order in which all languages write them. It is not trusted,
// and everything in it is verified again.
type storedRecord struct {
	Format      int                `json:"format"`
	AppID       string             `json:"app_id"`
	LicenceKey  *string            `json:"licence_key"`
	LegacyKey   *string            `json:"legacy_key"`
	Fingerprint string             `json:"fingerprint"`
	Token       *string            `json:"token"`
	Floating    bool               `json:"floating"`
	Refusal     *string            `json:"refusal"`
	SignedKeys  *string            `json:"signed_keys"`
	JWKS        *storedKeys        `json:"jwks"`
	JWKSAt      timestamp          `json:"jwks_at"`
	FileKeys    *string            `json:"file_keys"`
	Revocations *storedRevocations `json:"revocations"`
	Seen        storedTime         `json:"seen"`
	Revision    int64              `json:"revision"`
	Nonce       *string            `json:"nonce"`
}

type storedKeys struct {
	Keys []publicKey `json:"keys"`
}

type storedRevocations struct {
	List      *string   `json:"list"`
	NamedBy   *string   `json:"named_by"`
	ETag      *string   `json:"etag"`
	ETagSince *float64  `json:"etag_since"`
	CheckedAt timestamp `json:"checked_at"`
}

type storedTime struct {
	Time        timestamp `json:"time"`
	Local       timestamp `json:"local"`
	TurnedBack  bool      `json:"turned_back"`
	Corrections int64     `json:"corrections"`
}

// neverNull has the names of fields that may be absent, but not null.
var neverNull = []string{
	"app_id", "fingerprint", "floating", "jwks_at", "revision", "keys", "checked_at", "time", "local", "turned_back", "corrections",
}

// timestamp is a time in ISO 8601.
type timestamp int64

func (t timestamp) MarshalJSON() ([]byte, error) {
	return json.Marshal(formatTime(int64(t)))
}

func (t *timestamp) UnmarshalJSON(text []byte) error {
	var written string
	if err := json.Unmarshal(text, &written); err != nil {
		return err
	}
	ms, isTime := parseTime(written)
	if !isTime {
		return fmt.Errorf("%q is no time", written)
	}
	*t = timestamp(ms)
	return nil
}

// parseRecord reads the text of the store; nil if a field is missing or has another type: then the record is ignored as a whole.
func parseRecord(text []byte) *storedRecord {
	record := &storedRecord{}
	var inner struct{ Revocations, Seen, JWKS json.RawMessage }
	isRecord := json.Unmarshal(text, record) == nil && json.Unmarshal(text, &inner) == nil && record.Format == 1 &&
		hasFields(text, "app_id", "licence_key", "legacy_key", "fingerprint", "token", "refusal", "jwks", "revocations") &&
		hasFields(inner.Seen, "time", "local") && isCount(record.Revision) && isCount(record.Seen.Corrections) &&
		(record.JWKS == nil || (hasFields(inner.JWKS, "keys") && !slices.ContainsFunc(record.JWKS.Keys, isNoKey))) &&
		(record.Revocations == nil || hasFields(inner.Revocations, "list", "named_by", "etag", "etag_since", "checked_at"))
	if !isRecord {
		return nil
	}
	return record
}

// hasFields says whether an object has these fields, and no null where none may be.
func hasFields(text []byte, names ...string) bool {
	var fields map[string]json.RawMessage
	if json.Unmarshal(text, &fields) != nil {
		return false
	}
	for name, value := range fields {
		if string(value) == "null" && slices.Contains(neverNull, name) {
			return false
		}
	}
	return !slices.ContainsFunc(names, func(name string) bool { return fields[name] == nil })
}

func isCount(number int64) bool {
	return number >= 0 && number < 1<<53
}

func isNoKey(key publicKey) bool {
	return key == nil
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
	record := parseRecord(text)
	if record == nil {
		nothing.absence = ReasonStoreCorrupt
		return nothing
	}
	if record.AppID != of.appID {
		return nothing
	}
	seen := seenTime{int64(record.Seen.Time), int64(record.Seen.Local), record.Seen.TurnedBack, record.Seen.Corrections}
	now := mergeTimes(mine.time, seen.admitted(mine.time)).time
	storedKeys := readStoredKeys(*record, of)
	keys := mergeKeys(mine.keys, storedKeys)
	stored := readLicence(*record, mine, of, keys, now)
	stored.held.keys, stored.held.time = storedKeys, seen
	if record.Revocations != nil {
		stored.held.revocations = readRevocations(*record.Revocations, stored.held, mine, keys, of.appID)
	}
	return stored
}

// readStoredKeys verifies the keys in the store like those of the service, but for their age; nil if there are none.
func readStoredKeys(record storedRecord, of identity) *keySet {
	if of.isUnpinned() {
		if record.JWKS == nil {
			return nil
		}
		return unsignedKeys(record.JWKS.Keys, int64(record.JWKSAt))
	}
	keys := readSignedKeys(orEmpty(record.SignedKeys), of)
	if keys == nil || !keys.isFromService() {
		return nil
	}
	return keys
}

// readLicence reads the licence of a record. That of another key or machine is not ours, unless this machine has none yet.
func readLicence(record storedRecord, mine held, of identity, keys *keySet, now int64) found {
	none := held{licence: licence{key: of.licenceKey}}
	key := cmp.Or(of.licenceKey, orEmpty(record.LicenceKey))
	if record.LicenceKey != nil && !isSameKey(key, *record.LicenceKey) {
		return found{none, ReasonLicenceKeyChanged, record.Revision}
	}
	ours := held{licence: licence{
		revision:  record.Revision,
		key:       key,
		legacyKey: orEmpty(record.LegacyKey),
		nonce:     orEmpty(record.Nonce),
	}}
	if record.Token == nil {
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
	latest.floating = record.Floating
	if record.Fingerprint == of.fingerprint {
		ours.licence.latest, ours.licence.refusal = latest, Reason(orEmpty(record.Refusal))
		return found{ours, "", noRevision}
	}
	if hasToken {
		return found{none, "", record.Revision}
	}
	latest.formerFingerprint, latest.isFormer = record.Fingerprint, true
	ours.licence.latest = latest
	return found{ours, ReasonFingerprintChanged, noRevision}
}

// readRevocations reads the lists of a record. A list that names a licence counts for that, whatever else the record says, and
// even if its keys have ended; the list held is for the record's licence.
func readRevocations(record storedRevocations, stored, mine held, keys *keySet, appID string) map[string]revocations {
	list, _ := readList(orEmpty(record.List), keys, appID)
	namedBy, _ := readList(orEmpty(record.NamedBy), keys, appID)
	etagSince := int64(wholeList)
	if record.ETagSince != nil && *record.ETagSince >= 0 {
		etagSince = int64(*record.ETagSince)
	}
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
			entry.list = &heldList{*list, orEmpty(record.ETag), etagSince, int64(record.CheckedAt)}
		}
		known[id] = entry
	}
	return known
}

// writeRecord is the text that the store keeps.
func writeRecord(h held, of identity) []byte {
	record := storedRecord{
		Format:      1,
		AppID:       of.appID,
		LicenceKey:  orNull(h.licence.key),
		LegacyKey:   orNull(h.licence.legacyKey),
		Fingerprint: of.fingerprint,
		Revocations: writeRevocations(h),
		Seen:        storedTime{timestamp(h.time.time), timestamp(h.time.local), h.time.turnedBack, h.time.corrections},
		Revision:    h.licence.revision,
		Nonce:       orNull(h.licence.nonce),
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
		record.JWKS, record.JWKSAt = &storedKeys{h.keys.keys}, timestamp(h.keys.issuedAt)
	}
	return []byte(encodeJSON(record))
}

func writeRevocations(h held) *storedRevocations {
	of := h.revocationsOfToken()
	if of.list == nil && of.namedBy == "" {
		return nil
	}
	written := &storedRevocations{NamedBy: orNull(of.namedBy), CheckedAt: timestamp(h.time.time)}
	if list := of.list; list != nil {
		written.List, written.ETag = &list.jws, orNull(list.etag)
		if list.etagSince != wholeList {
			since := float64(list.etagSince)
			written.ETagSince = &since
		}
		if list.checkedAt != noTime {
			written.CheckedAt = timestamp(list.checkedAt)
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

func orEmpty(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}
