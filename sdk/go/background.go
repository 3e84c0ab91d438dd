package licensing

// dueTimes says when each kind of background work is due, in trusted time; never for work that is not.
type dueTimes struct {
	// now is the current time.
	now  int64
	list int64
	// token is when the next token, or the activation, is requested.
	token int64
	// tokenEnd is when the token ends: the state changes then, and listeners are called.
	tokenEnd int64
}

const (
	never = forever
	// Timers are late after a computer slept, so no timer is longer than a minute.
	maxSleep = minute
	// minSleep is the shortest time between two checks.
	minSleep = second
)

// dueTimesOf is the work that is due at the time that was last observed.
//
// isWanted says that the product asked for a licence. jitter is a number from 0 to 1, constant for a client: it spreads
// installations that were started together.
func dueTimesOf(h held, a attempts, isWanted bool, jitter float64) dueTimes {
	now, token := h.time.time, h.token()
	due := dueTimes{now, never, never, never}
	switch {
	case h.isRevoked():
		return due
	case token == nil:
		// A first activation that failed is retried. If it was refused, it is retried only when the product calls again.
		status, _ := statusOf(h, a)
		if isWanted && status == StatusUnlicensed && a.backoff[forToken].failures > 0 {
			due.token = a.backoff[forToken].earliest(now, now)
		}
		return due
	}
	claims := token.claims
	refresh := claims.refreshAfter
	if !claims.offline {
		refresh += int64(float64(claims.expiresAt-claims.issuedAt) / 10 * jitter)
		if h.time.turnedBack {
			refresh = now
		}
	}
	due.token = a.backoff[forToken].earliest(refresh, now)
	if now >= claims.expiresAt {
		return due
	}
	due.tokenEnd = claims.expiresAt
	check := now
	if list := h.revocationsOfToken().list; list != nil && list.checkedAt != noTime && !list.more {
		// Up to a tenth earlier and never later, because a revocation must be noticed within the interval.
		check = list.checkedAt + int64(float64(claims.checkInterval)*(1-jitter/10))
	}
	due.list = a.backoff[forList].earliest(check, now)
	return due
}

// sleep is how long the timer waits; false if nothing will be due.
func (due dueTimes) sleep() (int64, bool) {
	next := min(due.list, due.token, due.tokenEnd)
	return min(max(next-due.now, minSleep), maxSleep), next != never
}
