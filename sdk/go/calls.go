package licensing

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
)

// The calls of a product: which requests each one sends, and what follows from each answer. They read the two values of the
// session, and change them only by apply and record.

// refusalIn is the refusal in an answer; empty if there is none.
func refusalIn(operation Operation, of answer) Reason {
	switch {
	case of.kind != refusal:
		return ""
	case of.code == "licence_refused":
		return cmp.Or(of.reason, Reason(of.code))
	case of.code == "limit_reached" && of.reason == "max_concurrent":
		return ReasonNoPlace
	}
	return refusals[operation][fmt.Sprintf("%d %s", of.status, of.code)]
}

// activate gets a token, unless there is one that is valid.
func (s *session) activate(ctx context.Context) {
	held := s.current()
	switch {
	case s.state().Usable || held.isRevoked():
	case held.token() != nil && held.licence.key == "":
		s.refresh(ctx)
	default:
		s.activateKey(ctx)
	}
}

// activateKey activates the licence key, and receives a token.
func (s *session) activateKey(ctx context.Context) {
	if s.current().licence.key == "" {
		s.record(func(a *attempts) { a.absence = ReasonNoLicenceKey })
		return
	}
	if s.isWaiting(forToken) {
		return
	}
	nonce := s.newNonce()
	body := s.description()
	body["licence_key"], body["nonce"] = s.current().licence.key, nonce
	request := call{method: "POST", path: "/v1/activations", body: body}
	received := s.ask(ctx, request)
	reason := refusalIn(OperationActivate, received)
	isFull := reason == ReasonLimitReached || reason == ReasonNoPlace || reason == ReasonQuotaExceeded
	if isFull && s.freeFormerActivation(ctx) {
		received = s.ask(ctx, request)
	}
	problem := s.receiveToken(ctx, received, nonce, "")
	// If the vendor has given the licence another key, the activation and its expired token can still be renewed.
	if token := s.current().token(); token != nil && reason == ReasonUnknownLicenceKey && s.renewToken(ctx, token) == nil {
		problem = nil
	}
	s.recordTokenOutcome(OperationActivate, problem)
}

// freeFormerActivation frees the activation that this machine has under its former fingerprint. It is false if there is none, or
// if that fails.
func (s *session) freeFormerActivation(ctx context.Context) bool {
	latest := s.current().licence.latest
	return latest != nil && latest.isFormer && s.askFor(ctx, latest, "DELETE", "", nil).isGone()
}

// askFor sends a request for the activation of a token.
func (s *session) askFor(ctx context.Context, of *token, method, verb string, body object) answer {
	path := "/v1/activations/" + url.PathEscape(of.claims.activationID) + verb
	return s.ask(ctx, call{method: method, path: path, body: body, token: of.jws})
}

// refresh requests a new token for the activation.
func (s *session) refresh(ctx context.Context) {
	token := s.current().token()
	if token == nil || s.isOfflineNow() || s.current().isRevoked() || s.isWaiting(forToken) {
		return
	}
	problem := s.renewToken(ctx, token)
	if problem != nil && s.current().licence.key != "" {
		// The activation was freed, or its token is too old: the licence key is activated again.
		switch refusalIn(OperationRefresh, *problem) {
		case ReasonTokenRejected, ReasonActivationFreed:
			s.activateKey(ctx)
			return
		}
	}
	s.recordTokenOutcome(OperationRefresh, problem)
}

// renewToken replaces the token by a new one of its activation; nil if that worked.
func (s *session) renewToken(ctx context.Context, token *token) *answer {
	nonce := s.newNonce()
	body := s.use()
	body["nonce"] = nonce
	return s.receiveToken(ctx, s.askFor(ctx, token, "POST", "/refresh", body), nonce, "")
}

// callHome tells the service that this installation is in use, whatever the licence's status.
func (s *session) callHome(ctx context.Context) {
	token := s.current().token()
	if token == nil || s.isWaiting(forToken) {
		return
	}
	received := s.askFor(ctx, token, "POST", "/call-home", s.use())
	var problem *trouble
	if received.kind != success {
		problem = received.trouble()
	}
	s.recordProblem(OperationCallHome, problem)
}

// release ends the lease of a floating licence, and then the use of the token. The activation stays.
func (s *session) release(ctx context.Context) {
	token := s.current().token()
	if token == nil || s.isOfflineNow() || s.isWaiting(forToken) {
		return
	}
	s.recordFreed(OperationRelease, s.askFor(ctx, token, "POST", "/release", nil), token.floating, ReasonReleased)
}

// deactivate frees the activation at the service, then deletes the token.
func (s *session) deactivate(ctx context.Context) {
	token := s.current().token()
	if token == nil || s.isWaiting(forToken) {
		return
	}
	s.recordFreed(OperationDeactivate, s.askFor(ctx, token, "DELETE", "", nil), true, ReasonDeactivated)
}

// free frees the activation or its lease. If that worked, the background does not ask for a licence again.
func (s *session) free(ctx context.Context, how func(context.Context)) {
	how(ctx)
	if s.current().token() == nil {
		s.wants(nil)
	}
}

func (s *session) recordFreed(operation Operation, received answer, endsToken bool, absence Reason) {
	if !received.isGone() {
		s.recordOutcome(operation, forToken, received.trouble())
		return
	}
	if endsToken {
		s.apply(freed{})
		s.record(func(a *attempts) {
			*a = a.withNewToken()
			a.absence = absence
		})
	}
	s.recordOutcome(operation, forToken, nil)
}

// startTrial starts a trial, or continues with the licence key of the trial that was started before.
func (s *session) startTrial(ctx context.Context, planCode string) {
	held := s.current()
	if s.state().Usable || held.isRevoked() {
		return
	}
	if held.licence.key != "" {
		s.activateKey(ctx)
		return
	}
	if s.isWaiting(forToken) {
		return
	}
	nonce := s.newNonce()
	body := s.description()
	body["plan_code"], body["nonce"] = planCode, nonce
	received := s.ask(ctx, call{method: "POST", path: s.appPath() + "/trials", body: body})
	licenceKey, _ := received.body["licence_key"].(string)
	s.recordTokenOutcome(OperationStartTrial, s.receiveToken(ctx, received, nonce, licenceKey))
}

// migrate exchanges a legacy key for a licence key, once, and activates with that.
func (s *session) migrate(ctx context.Context, given string) {
	legacyKey := trimUnseen(given)
	licence := s.current().licence
	isExchanged := licence.legacyKey == legacyKey && licence.key != ""
	if (isExchanged && !s.state().Usable) || (!isExchanged && s.exchange(ctx, legacyKey)) {
		s.activateKey(ctx)
	}
}

func (s *session) exchange(ctx context.Context, legacyKey string) bool {
	if s.isWaiting(forToken) {
		return false
	}
	body := object{"legacy_key": legacyKey}
	received := s.ask(ctx, call{method: "POST", path: s.appPath() + "/migrate", body: body})
	licenceKey, hasKey := received.body["key"].(string)
	if received.kind == success && hasKey {
		s.apply(exchanged{legacyKey, licenceKey})
		s.recordOutcome(OperationMigrate, forToken, nil)
		return true
	}
	// A failed exchange does not change the licence held.
	if s.current().token() == nil {
		s.recordTokenOutcome(OperationMigrate, &received)
		return false
	}
	s.recordOutcome(OperationMigrate, forToken, troubleIn(OperationMigrate, received))
	return false
}

// activateOffline reads an offline licence file, without network. If the file is refused, the licence held stays.
func (s *session) activateOffline(text string) {
	s.time()
	held := s.current()
	token, reason := readFile(text, s.identity, held)
	if reason == "" {
		s.accept(newToken{token, held.licence.nonce, ""})
		s.recordProblem(OperationActivateOffline, nil)
		return
	}
	if held.token() == nil {
		s.apply(refused{""})
		s.record(func(a *attempts) { a.absence, a.failure = reason, "" })
	}
	s.recordProblem(OperationActivateOffline, &trouble{reason, fileRefusals[reason], noWait})
}

// maxAnswers is how many answers a check reads at most, about a million licences. The next check goes on from there.
const maxAnswers = 64

// listGap ends the reading of a list whose beginning is missing: then the whole list is read.
var listGap = &trouble{ReasonListGap, "the list has a gap: it does not continue the stored one", noWait}

// check reads the revocation list to its end: the additions since the current version, or the whole list. What was received
// counts and is kept, also if a later answer fails. After a failure the current list stays, at most until the token ends.
func (s *session) check(ctx context.Context) {
	held := s.current()
	if held.token() == nil || held.isRevoked() || s.isWaiting(forList) {
		return
	}
	since := int64(wholeList)
	if list := held.revocationsOfToken().list; list != nil {
		since = list.version
	}
	problem := s.readListFrom(ctx, since)
	// The service does not know the current version, or its list does not continue it: read the whole list.
	if problem == listGap {
		problem = s.readListFrom(ctx, wholeList)
	}
	s.recordOutcome(OperationCheck, forList, problem)
}

func (s *session) readListFrom(ctx context.Context, since int64) *trouble {
	for range maxAnswers {
		next, problem := s.requestList(ctx, since)
		if problem != nil || next == listEnd || s.current().isRevoked() {
			return problem
		}
		since = next
	}
	return nil
}

// listEnd says that a list was read to its end.
const listEnd = -1

// requestList returns the version from which the list goes on.
func (s *session) requestList(ctx context.Context, since int64) (next int64, problem *trouble) {
	path := s.appPath() + "/revocations"
	if since != wholeList {
		path += fmt.Sprintf("?since=%d", since)
	}
	// A 304 is not signed, so a list that has ended must be read again.
	etag := ""
	if list := s.current().revocationsOfToken().list; list != nil && list.etagSince == since && s.time() < list.expiresAt {
		etag = list.etag
	}
	received := s.ask(ctx, call{method: "GET", path: path, ifNoneMatch: etag})
	switch {
	case received.kind == refusal && received.status == 422 && since != wholeList:
		return listEnd, listGap
	case received.kind != success:
		return listEnd, received.trouble()
	case received.status == 304 && etag != "":
		s.apply(unchangedList{})
		return listEnd, nil
	}
	// Only the signed text is used; the other fields are for people.
	jws, isText := received.body["signature"].(string)
	if !isText {
		return listEnd, received.trouble()
	}
	read := func() (*revocationList, unreadable) {
		keys := s.current().keys
		if keys != nil && keys.expiresAt <= s.time() {
			return nil, unknownKey
		}
		return readList(jws, keys, s.identity.appID)
	}
	list, unread := readSigned(ctx, s, read, s.time())
	if unread != nil {
		return listEnd, unread.trouble()
	}
	s.time()
	acceptance := acceptanceOf(list, s.current())
	s.apply(newList{list, received.etag, since})
	// The first answers of a whole list have lower versions than the current one.
	isContinued := list.more && list.version > since && (acceptance == "" || acceptance == ReasonListOutdated)
	switch {
	case isContinued:
		return list.version, nil
	case acceptance == "" && list.more:
		return listEnd, received.trouble()
	case acceptance == "":
		return listEnd, nil
	case acceptance == ReasonListGap && since != wholeList:
		return listEnd, listGap
	}
	detail := fmt.Sprintf("version %d is expired, or not newer than the stored list", list.version)
	return listEnd, &trouble{acceptance, detail, noWait}
}

// Steps that the calls share

// receiveToken reads the token of an answer to a request with nonce, and accepts it; nil if it is valid.
func (s *session) receiveToken(ctx context.Context, received answer, nonce, licenceKey string) *answer {
	if received.kind != success {
		return &received
	}
	jws, isText := received.body["token"].(string)
	if !isText {
		problem := received.unexpected()
		return &problem
	}
	s.time()
	now := timeFor(s.current(), jws, nonce)
	claims, problem := readSigned(ctx, s, func() (*tokenClaims, unreadable) {
		return readToken(jws, s.current().keys, s.identity.appID, s.identity.fingerprint, now)
	}, now)
	if problem != nil {
		return problem
	}
	if claims.activationID != received.body["activation_id"] || claims.licenceID != received.body["licence_id"] {
		other := failed(ReasonUntrustedSignature, "the token belongs to another activation")
		return &other
	}
	_, floating := received.body["lease_ends_at"].(string)
	s.accept(newToken{&token{jws: jws, claims: claims, floating: floating}, nonce, licenceKey})
	// Fetches the keys before they end, so that a start without the network has keys for a valid token. If this fails, the token
	// is accepted all the same.
	if s.current().keys.isDue(s.time()) {
		s.fetchKeys(ctx, now)
	}
	return nil
}

func (s *session) accept(answer newToken) {
	s.apply(answer)
	s.record(func(a *attempts) { *a = a.withNewToken() })
}

// fetchKeys fetches the application's public keys and checks them at now; nil on success.
func (s *session) fetchKeys(ctx context.Context, now int64) *answer {
	received := s.ask(ctx, call{method: "GET", path: s.appPath() + "/jwks.json"})
	if received.kind != success {
		problem := received.unexpected()
		return &problem
	}
	keys, reason := readKeys(received.body, s.identity, s.current().keys, now)
	if reason != "" {
		problem := received.unexpected()
		if detail, isRefusal := keysRefusals[reason]; isRefusal {
			problem = failed(reason, detail)
		}
		return &problem
	}
	s.apply(newKeys{keys})
	return nil
}

// readSigned reads a signed text. If it is signed with an unknown key, the keys are fetched once.
func readSigned[T any](ctx context.Context, s *session, read func() (T, unreadable), now int64) (T, *answer) {
	value, unread := read()
	if unread == unknownKey {
		if problem := s.fetchKeys(ctx, now); problem != nil {
			return value, problem
		}
		value, unread = read()
	}
	if unread != "" {
		problem := failed(ReasonUntrustedSignature, "not signed by a key of this application")
		return value, &problem
	}
	return value, nil
}

// recordTokenOutcome records a try to get a token: success (nil), a refusal, or a failure.
func (s *session) recordTokenOutcome(operation Operation, problem *answer) {
	if problem == nil {
		token := s.current().token()
		if token == nil || s.time() < token.claims.refreshAfter {
			s.recordOutcome(operation, forToken, nil)
			return
		}
		// The new token is due for renewal already: another call would bring no better token, so the next one waits.
		s.recordProblem(operation, nil)
		s.wait(forToken, noWait)
		return
	}
	reason := refusalIn(operation, *problem)
	found := troubleIn(operation, *problem)
	if reason != "" {
		s.apply(refused{reason})
		s.record(func(a *attempts) { a.failure = "" })
	} else {
		s.record(func(a *attempts) { a.failure = found.code })
	}
	s.recordOutcome(operation, forToken, found)
}

// troubleIn is the refusal in an answer, or else why it is no valid answer.
func troubleIn(operation Operation, of answer) *trouble {
	if reason := refusalIn(operation, of); reason != "" {
		return &trouble{reason, of.detail, noWait}
	}
	return of.trouble()
}

// recordOutcome records the problem of an operation, and when the next try of its kind may be.
func (s *session) recordOutcome(operation Operation, of kind, problem *trouble) {
	s.recordProblem(operation, problem)
	if problem == nil {
		s.record(func(a *attempts) { a.backoff[of] = backoff{} })
	} else {
		s.wait(of, problem.retryAfter)
	}
}

// wait lets the next request of a kind wait, as after a failure.
func (s *session) wait(of kind, retryAfter int64) {
	now, longest := s.time(), int64(maxDelay)
	if token := s.current().token(); token != nil && of == forList {
		longest = token.claims.checkInterval
	} else if token != nil {
		// A token of a short lease needs several tries between half of its life and its end.
		longest = (token.claims.expiresAt - token.claims.issuedAt) / 8
	}
	s.record(func(a *attempts) { a.backoff[of] = a.backoff[of].afterFailure(now, retryAfter, longest) })
}

func (s *session) recordProblem(operation Operation, problem *trouble) {
	now := s.time()
	s.record(func(a *attempts) { *a = a.withProblem(operation, problem, now) })
}

// isWaiting: the service answered with a Retry-After that has not passed.
func (s *session) isWaiting(of kind) bool {
	now := s.time()
	isBlocked := false
	s.record(func(a *attempts) { isBlocked = a.backoff[of].isBlocked(now) })
	return isBlocked
}

// isOfflineNow says whether the valid token came in a file. Only another file renews it, because tokens of the service are
// shorter.
func (s *session) isOfflineNow() bool {
	now := s.time()
	token := s.current().token()
	return token != nil && token.claims.offline && now < token.claims.expiresAt
}

// description is that of the installation in requests.
func (s *session) description() object {
	body := s.use()
	body["fingerprint"] = s.identity.fingerprint
	return body
}

// use says where this installation is in use.
func (s *session) use() object {
	return object{"host": s.host, "product_version": s.productVersion}
}

func (s *session) appPath() string {
	return "/v1/apps/" + url.PathEscape(s.identity.appID)
}
