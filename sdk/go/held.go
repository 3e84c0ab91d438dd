package licensing

import (
	"cmp"
	"maps"
	"slices"
)

// held is the verified knowledge of an installation: a value, which never changes. Three functions make a new one: merge
// joins two processes' knowledge, applyTo of an answer adds that, and observed reads the clock.
type held struct {
	licence licence
	// keys verify texts of the service; nil if there are none.
	keys *keySet
	// revocations has what is known by licence id. The store keeps the entry of its token's licence.
	revocations map[string]revocations
	time        seenTime
}

// licence is the part that is replaced as a whole, by the process that changed it last. An empty text stands for null.
type licence struct {
	// revision counts how often a process has replaced this part: the higher number is newer. 0: an empty store.
	revision int64
	key      string
	// legacyKey was exchanged for key.
	legacyKey string
	// latest is the token received last, even if it has ended, or is of a former fingerprint; nil if there is none.
	latest *token
	// refusal is the reason with which the service last refused a token.
	refusal Reason
	// nonce is the one with which an offline file may set the time back; empty if no file may.
	nonce string
}

type token struct {
	jws    string
	claims *tokenClaims
	// fileKeys is the key set of the offline file that it came in; nil for a token of the service.
	fileKeys *keySet
	// floating: the activation held a lease of a floating licence when the token was issued.
	floating bool
	// formerFingerprint is the one that it was issued to, if this machine has another one since.
	formerFingerprint string
	isFormer          bool
}

type revocations struct {
	// list is the one that was last accepted.
	list *heldList
	// namedBy is an authentic list that names the licence: it is revoked, and no later answer changes that.
	namedBy string
}

// heldList is a list, and what the service said of it. After its expiresAt it is outdated, even if an unsigned answer confirms it.
type heldList struct {
	revocationList
	etag string
	// etagSince is the since of the request that the ETag answers; wholeList if it had none.
	etagSince int64
	// checkedAt is when the service last said that this is the latest list; noTime before it was read to its end.
	checkedAt int64
}

// wholeList stands for a request without since.
const wholeList = -1

// emptyHeld is the knowledge of a client that was given a licence key, or none.
func emptyHeld(key string, local int64) held {
	return held{licence: licence{key: key}, time: seenTime{time: local, local: local}}
}

// token is the token of this machine; nil if there is none.
func (h held) token() *token {
	if h.licence.latest == nil || h.licence.latest.isFormer {
		return nil
	}
	return h.licence.latest
}

// revocationsOfToken is what is known about the token's licence.
func (h held) revocationsOfToken() revocations {
	if token := h.token(); token != nil {
		return h.revocations[token.claims.licenceID]
	}
	return revocations{}
}

func (h held) isRevoked() bool {
	return h.revocationsOfToken().namedBy != ""
}

// observed reads the local clock.
func (h held) observed(local int64) held {
	h.time = h.time.observed(local)
	return h
}

// merge joins the knowledge of two processes that share a store. It is commutative, associative and idempotent, so that
// neither the order of saves nor their number matters. Both times must have been continued to the same local clock.
func merge(mine, theirs held) held {
	return held{
		licence:     mergeLicences(mine.licence, theirs.licence),
		keys:        mergeKeys(mine.keys, theirs.keys),
		revocations: mergeRevocations(mine.revocations, theirs.revocations),
		time:        mergeTimes(mine.time, theirs.time),
	}
}

func mergeLicences(mine, theirs licence) licence {
	switch order := compareLicences(mine, theirs); {
	case order > 0:
		return mine
	case order < 0:
		return theirs
	}
	mine.key = max(mine.key, theirs.key)
	mine.legacyKey = max(mine.legacyKey, theirs.legacyKey)
	mine.refusal = max(mine.refusal, theirs.refusal)
	mine.nonce = max(mine.nonce, theirs.nonce)
	return mine
}

// compareLicences says which is newer. If two processes replaced the licence at once, an activation that was freed stays
// freed.
func compareLicences(mine, theirs licence) int {
	if order := cmp.Or(
		cmp.Compare(mine.revision, theirs.revision),
		cmp.Compare(rankOfToken(mine), rankOfToken(theirs)),
	); order != 0 || mine.latest == nil {
		return order
	}
	one, other := mine.latest, theirs.latest
	return cmp.Or(
		cmp.Compare(one.claims.issuedAt, other.claims.issuedAt),
		cmp.Compare(one.claims.expiresAt, other.claims.expiresAt),
		cmp.Compare(one.text(), other.text()),
	)
}

func rankOfToken(of licence) int {
	switch {
	case of.latest != nil:
		return 1
	case of.revision == 0:
		return 0
	}
	return 2
}

// text is the same in all languages, so that all of them prefer the same one of two tokens.
func (t *token) text() string {
	var fileKeys, former any
	if t.fileKeys != nil {
		fileKeys = t.fileKeys.jws
	}
	if t.isFormer {
		former = t.formerFingerprint
	}
	return encodeJSON([]any{t.jws, fileKeys, t.floating, former})
}

// mergeKeys prefers the later set. If both are of one second, it prefers the set with more keys, because a rotation adds one.
func mergeKeys(mine, theirs *keySet) *keySet {
	if mine == nil || theirs == nil {
		return cmp.Or(mine, theirs)
	}
	if cmp.Or(
		cmp.Compare(mine.issuedAt, theirs.issuedAt),
		cmp.Compare(len(mine.keys), len(theirs.keys)),
		cmp.Compare(mine.jws, theirs.jws),
		cmp.Compare(encodeJSON(mine.keys), encodeJSON(theirs.keys)),
	) >= 0 {
		return mine
	}
	return theirs
}

func mergeRevocations(mine, theirs map[string]revocations) map[string]revocations {
	merged := maps.Clone(mine)
	if merged == nil {
		merged = map[string]revocations{}
	}
	for id, their := range theirs {
		my := merged[id]
		merged[id] = revocations{mergeLists(my.list, their.list), max(my.namedBy, their.namedBy)}
	}
	return merged
}

func mergeLists(mine, theirs *heldList) *heldList {
	if mine == nil || theirs == nil {
		return cmp.Or(mine, theirs)
	}
	order := cmp.Or(
		cmp.Compare(mine.version, theirs.version),
		cmp.Compare(mine.issuedAt, theirs.issuedAt),
		cmp.Compare(mine.jws, theirs.jws),
		cmp.Compare(mine.checkedAt, theirs.checkedAt),
		cmp.Compare(mine.etagSince, theirs.etagSince),
		cmp.Compare(mine.etag, theirs.etag),
	)
	if order >= 0 {
		return mine
	}
	return theirs
}

// absorb adds what the store has. The clock has been read before.
func absorb(mine, stored held) held {
	stored.time = stored.time.admitted(mine.time)
	return merge(mine, stored).settled()
}

// settled makes the parts of a value that was read or changed agree: the time is not before what the service has signed, and
// nothing was confirmed in the future. A former time may have been ahead.
func (h held) settled() held {
	list := h.revocationsOfToken().list
	if token := h.token(); token != nil {
		h.time = h.time.notBefore(token.claims.issuedAt)
	}
	if list != nil {
		h.time = h.time.notBefore(list.issuedAt)
	}
	now := h.time.time
	if h.keys != nil && h.keys.jws == "" && h.keys.issuedAt > now {
		keys := *h.keys
		keys.issuedAt = now
		h.keys = &keys
	}
	if list != nil && list.checkedAt > now {
		h = h.confirmedAt(now)
	}
	return h
}

// verified is an answer of the service, or an offline file, that was verified. The clock has been read before it is applied.
type verified interface{ applyTo(held) held }

// newToken has the nonce of its request, empty if there was none, and the licence key of a new trial.
type newToken struct {
	token             *token
	nonce, licenceKey string
}

func (answer newToken) applyTo(h held) held {
	h.time = timeAfter(h, answer.token, answer.nonce)
	h = h.replaced()
	h.licence.key = cmp.Or(answer.licenceKey, h.licence.key)
	h.licence.latest, h.licence.refusal, h.licence.nonce = answer.token, "", ""
	return h.settled()
}

// refused has the reason of a refusal. An empty one ends the last refusal.
type refused struct{ reason Reason }

func (answer refused) applyTo(h held) held {
	h.licence.refusal = answer.reason
	return h
}

// freed: the service freed the activation, or ended its lease.
type freed struct{}

func (freed) applyTo(h held) held {
	h = h.replaced()
	h.licence.latest, h.licence.refusal = nil, ""
	return h
}

// exchanged: a legacy key was exchanged.
type exchanged struct{ legacyKey, licenceKey string }

func (answer exchanged) applyTo(h held) held {
	h = h.replaced()
	h.licence.legacyKey, h.licence.key, h.licence.refusal = answer.legacyKey, answer.licenceKey, ""
	return h
}

type newKeys struct{ keys *keySet }

func (answer newKeys) applyTo(h held) held {
	h.keys = answer.keys
	return h
}

// newList is a list in an answer to a request with since.
type newList struct {
	list  *revocationList
	etag  string
	since int64
}

func (answer newList) applyTo(h held) held {
	list, current := answer.list, h.revocationsOfToken().list
	acceptance := acceptanceOf(list, h)
	if token := h.token(); token != nil && slices.Contains(list.revoked, token.claims.licenceID) {
		h = h.withRevocations(func(of *revocations) { of.namedBy = list.jws })
	}
	if acceptance != "" {
		return h
	}
	h.time = h.time.notBefore(list.issuedAt)
	accepted := heldList{*list, answer.etag, answer.since, h.time.time}
	if list.more {
		accepted.checkedAt = noTime
		if current != nil {
			accepted.checkedAt = current.checkedAt
		}
	}
	return h.withRevocations(func(of *revocations) { of.list = &accepted })
}

// unchangedList: the list held is the latest.
type unchangedList struct{}

func (unchangedList) applyTo(h held) held {
	return h.confirmedAt(h.time.time)
}

// replaced counts that the licence changes.
func (h held) replaced() held {
	h.licence.revision++
	return h
}

func (h held) confirmedAt(now int64) held {
	return h.withRevocations(func(of *revocations) {
		if of.list != nil {
			list := *of.list
			list.checkedAt = now
			of.list = &list
		}
	})
}

func (h held) withRevocations(change func(*revocations)) held {
	if token := h.token(); token != nil {
		id := token.claims.licenceID
		of := h.revocations[id]
		change(&of)
		h.revocations = mergeRevocations(h.revocations, nil)
		h.revocations[id] = of
	}
	return h
}

// timeAfter is the time after a token was accepted. A token that answers this request sets the time, even if the clock is
// ahead, so that a clock with a constant error does no harm. A file does that only with the nonce of the store, and sets it
// to the local clock, because the file may be old. Any other token only shows that it is not earlier.
func timeAfter(h held, accepted *token, nonce string) seenTime {
	issuedAt := accepted.claims.issuedAt
	if nonce == "" || accepted.claims.nonce != nonce {
		return h.time.notBefore(issuedAt)
	}
	now := issuedAt
	if accepted.fileKeys != nil {
		now = max(now, h.time.local)
	}
	if former := h.token(); former != nil {
		now = max(now, former.claims.issuedAt)
	}
	if list := h.revocationsOfToken().list; list != nil {
		now = max(now, list.issuedAt)
	}
	return h.time.corrected(max(now, 0))
}

// acceptanceOf says why an authentic list may not replace the current one; it is empty if it may. A licence that the list
// names is revoked in any case: a revocation is permanent, so an old list proves it as well as a new one.
func acceptanceOf(list *revocationList, h held) Reason {
	current := h.revocationsOfToken().list
	switch {
	case list.expiresAt+tolerance <= max(h.time.time, list.issuedAt):
		return ReasonListExpired
	case current != nil && list.version < current.version:
		return ReasonListOutdated
	case list.since != 0 && (current == nil || list.since > current.version):
		return ReasonListGap
	}
	return ""
}

// needsNonce says whether the next request for an offline file needs a nonce, so that the file can set the time back: nothing
// is granted, and the trusted time is ahead of the local clock. So an older file never sets the time back.
func (h held) needsNonce() bool {
	token := h.token()
	hasEnded := token == nil || h.time.time >= token.claims.expiresAt
	return h.licence.nonce == "" && h.time.isAhead() && hasEnded
}

// timeFor is the time at which an answer to a request with nonce is checked. A token with this nonce was issued after the request:
// if the trusted time is ahead of the clock, the clock counts. Nothing is verified here.
func timeFor(h held, jws, nonce string) int64 {
	claims := unverifiedClaims(jws)
	issuedAt, isTime := unixTimeIn(claims["iat"])
	if nonce == "" || claims["nonce"] != nonce || !isTime {
		return h.time.time
	}
	return max(h.time.local, issuedAt)
}
