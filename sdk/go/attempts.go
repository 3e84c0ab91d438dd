package licensing

import (
	"math/rand/v2"
	"time"
)

// attempts has the outcomes of the calls of this process: a value beside held, which ends with the process. It explains
// the state and decides when the next call may be.
type attempts struct {
	isStoreRead bool
	// absence says why there is no token, before the service was asked.
	absence Reason
	// failure is the reason if the last try to get a token failed.
	failure Reason
	// problem is the most recent one, unless a later success has ended it.
	problem *Problem
	// backoff says when the service may be asked again for a token, and for a revocation list.
	backoff [2]backoff
}

// kind is a kind of requests that share a backoff.
type kind int

const (
	forToken kind = iota
	forList
)

// Problem is the problem in the last contact of its kind, for a log or a support page. No decision needs it.
type Problem struct {
	Operation Operation
	Code      Reason
	Detail    string
	At        time.Time
}

// trouble is a problem before it is recorded.
type trouble struct {
	code       Reason
	detail     string
	retryAfter int64
}

// withProblem records the problem of an operation. A success (nil) ends the problem of the same operation only.
func (a attempts) withProblem(operation Operation, found *trouble, now int64) attempts {
	if found != nil {
		a.problem = &Problem{operation, found.code, found.detail, timeOf(now)}
	} else if a.problem != nil && a.problem.Operation == operation {
		a.problem = nil
	}
	return a
}

// withNewToken says that there is another token, or none any more: former failures and problems of tokens have ended.
func (a attempts) withNewToken() attempts {
	a.failure = ""
	if a.problem != nil {
		switch a.problem.Operation {
		case OperationCheck, OperationCallHome, OperationStore, OperationInternal:
		default:
			a.problem = nil
		}
	}
	return a
}

// backoff says when the service may be called again for one kind of requests. Its times are trusted times.
type backoff struct {
	failures int
	// retryAt is when the background tries again after a failure.
	retryAt int64
	// blockedUntil is the end of a Retry-After, before which there is no call.
	blockedUntil int64
}

const (
	firstDelay = 30 * second
	maxDelay   = hour
	// noWait says that an answer has no Retry-After.
	noWait = -1
)

// afterFailure is the pace after a failure: 30 s, doubling to an hour or to longest, shortened by up to half at random, so
// that products do not retry together.
func (b backoff) afterFailure(now, retryAfter, longest int64) backoff {
	doubled := min(int64(firstDelay)<<min(b.failures, 20), maxDelay, longest)
	delay := int64(float64(doubled) * (1 - rand.Float64()/2))
	b.failures++
	b.retryAt = now + max(delay, retryAfter)
	b.blockedUntil = 0
	if retryAfter != noWait {
		b.blockedUntil = now + retryAfter
	}
	return b
}

// isBlocked says whether a Retry-After of the service has not passed yet.
func (b backoff) isBlocked(now int64) bool {
	return isStillAhead(b.blockedUntil, now)
}

// earliest is the first time, from wanted on, at which the background may try.
func (b backoff) earliest(wanted, now int64) int64 {
	if isStillAhead(b.retryAt, now) {
		return max(wanted, b.retryAt)
	}
	return wanted
}

// isStillAhead says whether a time is in the future. If it is further ahead than the longest wait, a wrong clock has set it:
// it is ignored.
func isStillAhead(moment, now int64) bool {
	return moment > now && moment-now <= maxDelay
}
