package licensing

import (
	"cmp"
	"time"
)

// State is everything that a product may need to know about its licence. It does not change.
type State struct {
	Status Status
	// Usable says whether features and limits are granted now: Status is licensed or grace.
	Usable bool
	// Reason is empty if Status is licensed or starting.
	Reason Reason
	// The ids are empty without a token.
	LicenceID, ActivationID, PlanID string
	// LicenceStatus is the status of the licence when the service signed the token: active or downgraded.
	LicenceStatus string
	// Seats is the number of seats that the product should enforce; nil for no such limit.
	Seats *int64
	// UpdatesUntil: the product may be updated to releases until this time; zero: to all. See [Client.Covers].
	UpdatesUntil time.Time
	// ExpiresAt is the end of the token; zero without a token.
	ExpiresAt time.Time
	// RefreshAfter is half of the token's life, when renewal begins; for an offline token its end.
	RefreshAfter time.Time
	// Offline says whether the token came in a file, by [Client.ActivateOffline].
	Offline bool
	// Revocations says how recent the revocation list is.
	Revocations Freshness
	// ClockTurnedBack says that the local clock was turned back, and no token has been issued since. The trusted time
	// continues from its last value.
	ClockTurnedBack bool
	// Problem is the most recent problem, unless a later success has ended it.
	Problem *Problem
}

// Freshness says how recent the revocation list is.
type Freshness string

const (
	// ListCurrent: the list was checked within two check intervals.
	ListCurrent Freshness = "current"
	// ListStale: it was checked longer ago.
	ListStale Freshness = "stale"
	// ListUnknown: there is no list.
	ListUnknown Freshness = "unknown"
)

// statusOf is the table of states: the first line that applies decides.
func statusOf(h held, a attempts) (Status, Reason) {
	refusal, now, token := h.licence.refusal, h.time.time, h.token()
	switch {
	case !a.isStoreRead:
		return StatusStarting, ""
	case h.isRevoked() || refusal == ReasonRevoked:
		return StatusRefused, ReasonRevoked
	case token == nil && refusal != "":
		return StatusRefused, refusal
	case token == nil:
		return StatusUnlicensed, cmp.Or(a.failure, a.absence)
	case now >= token.claims.expiresAt && refusal != "":
		return StatusRefused, refusal
	case now >= token.claims.expiresAt:
		return StatusLapsed, cmp.Or(a.failure, ReasonTokenExpired)
	case refusal != "":
		return StatusGrace, refusal
	case a.failure != "" && now >= token.claims.refreshAfter:
		return StatusGrace, a.failure
	}
	return StatusLicensed, ""
}

// isUsable says whether features and limits are granted.
func isUsable(h held, a attempts) bool {
	status, _ := statusOf(h, a)
	return status == StatusLicensed || status == StatusGrace
}

// stateOf is the state at the time that was last observed.
func stateOf(h held, a attempts) State {
	state := State{
		Usable:          isUsable(h, a),
		Revocations:     freshnessOf(h),
		ClockTurnedBack: h.time.turnedBack,
		Problem:         a.problem,
	}
	state.Status, state.Reason = statusOf(h, a)
	if token := h.token(); token != nil {
		claims := token.claims
		state.LicenceID, state.ActivationID, state.PlanID = claims.licenceID, claims.activationID, claims.planID
		state.LicenceStatus, state.Seats, state.Offline = claims.licenceStatus, claims.seats, claims.offline
		state.UpdatesUntil = timeOf(claims.updatesUntil)
		state.ExpiresAt, state.RefreshAfter = timeOf(claims.expiresAt), timeOf(claims.refreshAfter)
	}
	return state
}

func freshnessOf(h held) Freshness {
	list := h.revocationsOfToken().list
	if list == nil {
		return ListUnknown
	}
	now, interval := h.time.time, h.token().claims.checkInterval
	isChecked := list.checkedAt != noTime && now-list.checkedAt <= 2*interval
	if isChecked && !list.more && now < list.expiresAt {
		return ListCurrent
	}
	return ListStale
}
