package licensing

import (
	"errors"
	"regexp"
	"slices"
	"unicode"
)

// From bytes to verified claims: root keys, key sets, tokens, revocation lists and offline files. Everything that the service
// signs, wherever it came from, is read here.

// identity is the installation that a text must have been signed for.
type identity struct {
	appID, fingerprint string
	// licenceKey is the one that the product was given; empty to use the stored one.
	licenceKey string
	// roots are the root keys that must have signed other keys; nil to trust all keys.
	roots []publicKey
}

func (of identity) isUnpinned() bool {
	return of.roots == nil
}

// Root keys

// Unpinned as the root key turns the protection off: the client believes any keys, including keys written into the store by
// someone else. It is for trials only, and such a client refuses offline files.
const Unpinned = "unpinned"

var errRootKey = errors.New("licensing: RootKey must be the application's root_key (GET /v1/apps/{app_id}), and RootKeys further ones; " +
	"licensing.Unpinned does without, and lets anyone who can edit the store license the product")

// 32 bytes in base64url: the last two bits of the last character are unused, and must be 0.
var rootKeyPattern = regexp.MustCompile(`^lrk_([A-Za-z0-9_-]{42}[AEIMQUYcgkosw048])$`)

// readRootKeys reads the options; nil for unpinned. The kid of a root key is the text itself.
func readRootKeys(rootKey string, more []string) ([]publicKey, error) {
	if rootKey == Unpinned && len(more) == 0 {
		return nil, nil
	}
	texts := more
	if rootKey != "" || len(more) == 0 {
		texts = append([]string{rootKey}, more...)
	}
	var roots []publicKey
	for _, text := range texts {
		match := rootKeyPattern.FindStringSubmatch(text)
		if match == nil {
			return nil, errRootKey
		}
		roots = append(roots, publicKey{"kid": text, "x": match[1]})
	}
	return roots, nil
}

// Key sets

// keySet has the public keys of the application.
type keySet struct {
	// jws is the signed set, an entry of signed; empty if the client is unpinned, which believes the keys as they come.
	jws  string
	keys []publicKey
	// issuedAt is when a root key signed the set; for an unpinned client when it was received.
	issuedAt int64
	// expiresAt is forever for an unpinned client.
	expiresAt int64
}

// The service signs key sets for 30 days. A set that lasts longer belongs to an offline file, and is accepted only there.
const maxLifeOfKeys = 31 * day

// readKeys reads an answer of jwks.json: the first set that may replace the current one, else why there is none.
func readKeys(body object, of identity, current *keySet, now int64) (*keySet, Reason) {
	keys, isKeySet := arrayIn[object](body["keys"])
	if !isKeySet {
		return nil, ReasonUnexpectedAnswer
	}
	if of.isUnpinned() {
		return unsignedKeys(keys, now), ""
	}
	refusal := ReasonUntrustedKeys
	signed, _ := body["signed"].([]any)
	for _, entry := range signed {
		jws, _ := entry.(string)
		keys := readSignedKeys(jws, of)
		switch {
		case keys == nil || !keys.isFromService():
		case keys.expiresAt <= now:
			refusal = ReasonKeysExpired
		case current != nil && keys.issuedAt < current.issuedAt:
			refusal = ReasonKeysOutdated
		default:
			return keys, ""
		}
	}
	return nil, refusal
}

func unsignedKeys(keys []publicKey, receivedAt int64) *keySet {
	return &keySet{keys: keys, issuedAt: receivedAt, expiresAt: forever}
}

// readSignedKeys verifies a key set, but not its age; nil if no root key has signed it for this application.
func readSignedKeys(jws string, of identity) *keySet {
	payload, problem := verify(jws, of.roots)
	keys, areKeys := arrayIn[object](payload["keys"])
	issuedAt, isIssued := unixTimeIn(payload["iat"])
	expiresAt, isEnding := unixTimeIn(payload["exp"])
	if problem != "" || payload["app_id"] != of.appID || !areKeys || !isIssued || !isEnding {
		return nil
	}
	return &keySet{jws, keys, issuedAt, expiresAt}
}

func (k *keySet) isFromService() bool {
	return k.expiresAt-k.issuedAt <= maxLifeOfKeys
}

// all are the keys of a set, which may be nil.
func (k *keySet) all() []publicKey {
	if k == nil {
		return nil
	}
	return k.keys
}

// isDue says whether half of the life of the keys is over. They are renewed then, so that no token lasts longer than its keys.
func (k *keySet) isDue(now int64) bool {
	return k != nil && now >= k.issuedAt+(k.expiresAt-k.issuedAt)/2
}

// isWithdrawn says whether the key that signed a file was withdrawn: a later set of the service lacks it.
func isWithdrawn(jws string, fileKeys, current *keySet) bool {
	return current != nil && current.issuedAt > fileKeys.issuedAt && keyOf(jws, current.keys) == nil
}

// Tokens

type tokenClaims struct {
	licenceID, activationID string
	planID, licenceStatus   string
	issuedAt, expiresAt     int64
	// refreshAfter is half of the life; of an offline token the end, as only another file renews it.
	refreshAfter  int64
	checkInterval int64
	seats         *int64
	// updatesUntil: the product may be updated to releases until this time; noTime: to all.
	updatesUntil int64
	entitlements map[string]string
	// offline: the token came in a file, for a machine without a network.
	offline bool
	// fingerprint is the one that it is valid for; empty if only the service knows it.
	fingerprint string
	// nonce is that of the request that it answers; empty if the request had none.
	nonce string
}

// readToken reads a token of an application for a fingerprint.
func readToken(jws string, keys *keySet, appID, fingerprint string, now int64) (*tokenClaims, unreadable) {
	payload, problem := verify(jws, keys.all())
	if problem != "" {
		return nil, problem
	}
	claims := claimsIn(payload, appID)
	if claims == nil || (claims.fingerprint != "" && claims.fingerprint != fingerprint) {
		return nil, forged
	}
	// Keys that have ended verify only tokens that have ended, so that these can be shown and renewed.
	if keys != nil && keys.expiresAt <= now && claims.expiresAt > now {
		return nil, unknownKey
	}
	return claims, ""
}

// readStoredToken reads the token of the store, with the keys of the service or of the file that it came in; nil if it is not
// authentic.
func readStoredToken(stored storedRecord, keys *keySet, of identity, now int64) *token {
	jws := *stored.Token
	var fileKeys *keySet
	if stored.FileKeys != nil {
		if fileKeys = readSignedKeys(*stored.FileKeys, of); fileKeys == nil || isWithdrawn(jws, fileKeys, keys) {
			return nil
		}
		keys = fileKeys
	}
	claims, problem := readToken(jws, keys, of.appID, stored.Fingerprint, now)
	if problem != "" || (fileKeys != nil && !claims.offline) {
		return nil
	}
	return &token{jws: jws, claims: claims, fileKeys: fileKeys}
}

// claimsIn are the claims in an authentic payload; nil if it is not a token of this application.
func claimsIn(payload object, appID string) *tokenClaims {
	licenceID, isLicence := payload["sub"].(string)
	activationID, isActivation := payload["act"].(string)
	audiences, _ := payload["aud"].([]any)
	isOurs := payload["aud"] == appID || slices.Contains(audiences, any(appID))
	issuedAt, isIssued := unixTimeIn(payload["iat"])
	expiresAt, isEnding := unixTimeIn(payload["exp"])
	interval, _ := unixTimeIn(payload["chk"])
	entitlements, areEntitlements := entitlementsIn(payload["entitlements"])
	if !isLicence || !isActivation || !isOurs || !isIssued || !isEnding || interval <= 0 || !areEntitlements {
		return nil
	}
	claims := &tokenClaims{
		licenceID: licenceID, activationID: activationID,
		issuedAt: issuedAt, expiresAt: expiresAt, refreshAfter: issuedAt + (expiresAt-issuedAt)/2,
		checkInterval: min(interval, day), entitlements: entitlements, updatesUntil: noTime,
	}
	claims.planID, _ = payload["plan_id"].(string)
	claims.licenceStatus, _ = payload["status"].(string)
	claims.fingerprint, _ = payload["fingerprint"].(string)
	claims.nonce, _ = payload["nonce"].(string)
	if claims.offline = payload["offline"] == true; claims.offline {
		claims.refreshAfter = expiresAt
	}
	if seats, isNumber := payload["seats"].(float64); isNumber {
		whole := int64(seats)
		claims.seats = &whole
	}
	if until, isTime := unixTimeIn(payload["upd"]); isTime {
		claims.updatesUntil = until
	}
	return claims
}

func entitlementsIn(value any) (map[string]string, bool) {
	found, isObject := value.(object)
	entitlements := make(map[string]string, len(found))
	for key, entry := range found {
		text, isText := entry.(string)
		if !isText {
			return nil, false
		}
		entitlements[key] = text
	}
	return entitlements, isObject
}

// Revocation lists

// revocationList is the content of a signed revocation list.
type revocationList struct {
	jws     string
	version int64
	// since is the version after which it lists additions; 0 for the whole list.
	since   int64
	revoked []string
	// more: the list goes on after version, and the rest is requested with it.
	more                bool
	issuedAt, expiresAt int64
}

func readList(jws string, keys *keySet, appID string) (*revocationList, unreadable) {
	payload, problem := verify(jws, keys.all())
	if problem != "" {
		return nil, problem
	}
	version, isVersion := countIn(payload["version"])
	since, isSince := countIn(payload["since"])
	revoked, isList := arrayIn[string](payload["revoked"])
	more, isBoolean := payload["more"].(bool)
	issuedAt, isIssued := unixTimeIn(payload["iat"])
	expiresAt, isEnding := unixTimeIn(payload["exp"])
	_, hasMore := payload["more"]
	if payload["app_id"] != appID || !isVersion || !isList || !isIssued || !isEnding ||
		(!isSince && payload["since"] != nil) || (!isBoolean && hasMore) {
		return nil, forged
	}
	return &revocationList{jws, version, since, revoked, more, issuedAt, expiresAt}, ""
}

// Offline files

// readFile returns the token of an offline file, with the keys of the file, if it is for this installation; else why it is
// refused.
func readFile(text string, of identity, h held) (*token, Reason) {
	if of.isUnpinned() {
		return nil, ReasonRootKeyRequired
	}
	texts := textsInFile(text)
	if texts == nil {
		return nil, ReasonFileMalformed
	}
	jws, signed := texts[0], texts[1:]
	claimed := unverifiedClaims(jws)
	// This check only gives a better reason: a file of another application would not verify either.
	if audience, isText := claimed["aud"].(string); isText && audience != of.appID {
		return nil, ReasonFileOfAnotherApplication
	}
	var keys *keySet
	for at := 0; at < len(signed) && keys == nil; at++ {
		keys = readSignedKeys(signed[at], of)
	}
	if keys == nil {
		return nil, ReasonUntrustedKeys
	}
	if isWithdrawn(jws, keys, h.keys) {
		return nil, ReasonKeysOutdated
	}
	now := timeFor(h, jws, h.licence.nonce)
	// The token must be authentic before its fingerprint and its end are compared, for a reason that is true.
	machine, isText := claimed["fingerprint"].(string)
	if !isText {
		machine = of.fingerprint
	}
	claims, problem := readToken(jws, keys, of.appID, machine, noTime)
	current := h.token()
	switch {
	case problem != "":
		return nil, ReasonUntrustedSignature
	case !claims.offline:
		return nil, ReasonFileMalformed
	case claims.fingerprint != of.fingerprint:
		return nil, ReasonFileOfAnotherMachine
	case min(claims.expiresAt, keys.expiresAt) <= now:
		return nil, ReasonFileExpired
	case current != nil && current.claims.offline && current.claims.expiresAt > now &&
		current.claims.activationID == claims.activationID && current.claims.issuedAt > claims.issuedAt:
		return nil, ReasonFileOutdated
	}
	return &token{jws: jws, claims: claims, fileKeys: keys}, ""
}

var (
	// Word processors and mail programs replace hyphens by other dashes.
	dashes = regexp.MustCompile(`[\x{2010}-\x{2015}\x{2212}]`)
	// White space, marks of quoted and wrapped lines, and what else stands between the characters of a file.
	noise = regexp.MustCompile(`[^\w.-]`)
	// A compact JWS with a signature of 64 bytes (Ed25519), so that its end is known without the end of a line.
	jwsPattern  = regexp.MustCompile(`[\w-]+\.[\w-]+\.[\w-]{86}`)
	filePattern = regexp.MustCompile(`^-*((?:` + jwsPattern.String() + `){2,})-*$`)
	fileLines   = regexp.MustCompile(`(?i)-(?:BEGIN|END)LICENCE`)
)

// textsInFile returns the signed texts of an offline licence file, the first one in the text: the token and the key sets; nil if
// there is none.
func textsInFile(text string) []string {
	parts := fileLines.Split(noise.ReplaceAllString(dashes.ReplaceAllString(text, "-"), ""), 3)
	if len(parts) < 3 {
		return nil
	}
	if content := filePattern.FindStringSubmatch(parts[1]); content != nil {
		return jwsPattern.FindAllString(content[1], -1)
	}
	return nil
}

// isBlank says whether a character is white space for the SDKs of all languages.
func isBlank(character rune) bool {
	return character == '\uFEFF' || (character != '\u0085' && unicode.IsSpace(character))
}
