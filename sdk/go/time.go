package licensing

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// All times inside the client are milliseconds since 1970 UTC, as in the store.
const (
	second = 1000
	minute = 60 * second
	hour   = 60 * minute
	day    = 24 * hour

	// maxTime is the end of the range of times that the stores of all languages can keep.
	maxTime = 8_640_000_000_000_000
	// forever is later than each time, and noTime is earlier: sums with them do not overflow.
	forever = math.MaxInt64 / 4
	noTime  = -forever

	// tolerance is the largest difference between two clocks that is ignored. A small step back may be a synchronisation.
	tolerance = 5 * minute
)

// seenTime is the time by which tokens are judged. It starts from the time that the service last signed (or, before that,
// from the local clock) and moves forward by what the local clock has moved forward since. It never follows the local
// clock backward, so turning the clock back gains nothing, and a clock with a constant error does no harm while the
// service can be reached.
type seenTime struct {
	// time is the trusted time at the last observation.
	time int64
	// local is the local clock at the last observation.
	local int64
	// turnedBack says that the local clock was found behind its last reading by more than the tolerance, and no token has
	// set the time since.
	turnedBack bool
	// corrections counts how often a token has set the time. The observation with the higher number is newer.
	corrections int64
}

// observed reads the local clock.
func (seen seenTime) observed(local int64) seenTime {
	moved := local - seen.local
	seen.time = min(seen.time+max(0, moved), maxTime)
	seen.turnedBack = seen.turnedBack || moved < -tolerance
	seen.local = local
	return seen
}

// mergeTimes joins two observations that were continued to the same local clock: the one with more corrections, else the
// later time. It is commutative, associative and idempotent.
func mergeTimes(mine, theirs seenTime) seenTime {
	if mine.corrections > theirs.corrections {
		return mine
	}
	if mine.corrections < theirs.corrections {
		return theirs
	}
	mine.time = max(mine.time, theirs.time)
	mine.local = max(mine.local, theirs.local)
	mine.turnedBack = mine.turnedBack || theirs.turnedBack
	return mine
}

// admitted continues an observation from the store to the local clock of mine. A store can be edited, so it sets the time
// back no further than to the local clock.
func (seen seenTime) admitted(mine seenTime) seenTime {
	return seen.observed(mine.local).notBefore(min(mine.time, mine.local))
}

// notBefore moves the time forward to the moment at which the service signed something.
func (seen seenTime) notBefore(signedAt int64) seenTime {
	seen.time = max(seen.time, signedAt)
	return seen
}

// corrected sets the time by a token that was issued in answer to a request of this installation. Only such a token may
// set the time back, so that a clock that once ran ahead does not invalidate every later token. A token that was kept
// from earlier may not, even if this installation has not seen it before.
func (seen seenTime) corrected(to int64) seenTime {
	return seenTime{time: to, local: seen.local, corrections: seen.corrections + 1}
}

// isAhead says whether the trusted time is ahead of the local clock: then one of the two is, or was, wrong.
func (seen seenTime) isAhead() bool {
	return seen.time-seen.local > tolerance
}

// timeOf is the form of a time in a [State]: the zero time if it is not known.
func timeOf(ms int64) time.Time {
	if ms == noTime {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

// formatTime writes a time as the store has it: ISO 8601, with a sign and six digits for years that do not have four.
func formatTime(ms int64) string {
	at := time.UnixMilli(ms).UTC()
	rest := at.Format("-01-02T15:04:05.000Z")
	if year := at.Year(); year < 0 || year > 9999 {
		return fmt.Sprintf("%+07d%s", year, rest)
	}
	return fmt.Sprintf("%04d%s", at.Year(), rest)
}

// parseTime reads what formatTime writes, and any other time of RFC 3339.
func parseTime(text string) (int64, bool) {
	var shift int64
	if len(text) > 7 && (text[0] == '+' || text[0] == '-') {
		year, err := strconv.ParseInt(text[:7], 10, 64)
		if err != nil {
			return 0, false
		}
		// The calendar repeats every 400 years, which have 146,097 days.
		cycles := int64(math.Floor(float64(year-2000) / 400))
		shift = cycles * 146_097 * day
		text = fmt.Sprintf("%04d%s", year-cycles*400, text[7:])
	}
	at, err := time.Parse(time.RFC3339, text)
	ms := at.UnixMilli() + shift
	return ms, err == nil && ms >= -maxTime && ms <= maxTime
}
