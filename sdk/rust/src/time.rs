//! The time by which tokens are judged. It starts from the time that the service last signed (or, before that, from the
//! local clock) and moves forward by what the local clock has moved forward since. It never follows the local clock
//! backward, so turning the clock back gains nothing, and a clock with a constant error does no harm while the service can
//! be reached.

use crate::timestamps::MAX_MS;

/// All values are milliseconds since 1970 UTC.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct SeenTime {
    /// The trusted time at the last observation.
    pub(crate) time: i64,
    /// The local clock at the last observation.
    pub(crate) local: i64,
    /// The local clock was found behind its last reading by more than the tolerance, and no token has set the time since.
    pub(crate) turned_back: bool,
    /// How often a token has set the time. The observation with the higher number is newer.
    pub(crate) corrections: u64,
}

/// A smaller step back may be a time synchronisation.
pub(crate) const TOLERANCE_MS: i64 = 300_000;

impl SeenTime {
    /// The first observation of a client.
    pub(crate) fn first(local: i64) -> Self {
        Self { time: local, local, turned_back: false, corrections: 0 }
    }

    /// Observes the local clock.
    pub(crate) fn observe(self, local: i64) -> Self {
        let moved = local - self.local;
        Self {
            time: (self.time + moved.max(0)).min(MAX_MS),
            local,
            turned_back: self.turned_back || moved < -TOLERANCE_MS,
            ..self
        }
    }

    /// Joins two observations that were continued to the same local clock: the one with more corrections, else the later
    /// time. Commutative, associative and idempotent.
    pub(crate) fn merge(self, theirs: Self) -> Self {
        match self.corrections.cmp(&theirs.corrections) {
            std::cmp::Ordering::Greater => self,
            std::cmp::Ordering::Less => theirs,
            std::cmp::Ordering::Equal => Self {
                time: self.time.max(theirs.time),
                local: self.local.max(theirs.local),
                turned_back: self.turned_back || theirs.turned_back,
                corrections: self.corrections,
            },
        }
    }

    /// This observation, which comes from a store, continued to the local clock of `mine`. A store can be edited, so it sets the
    /// time back no further than to the local clock.
    pub(crate) fn admit(self, mine: Self) -> Self {
        self.observe(mine.local).not_before(mine.time.min(mine.local))
    }

    /// Moves the time forward to `signed_at`, when the service signed something: the current time cannot be earlier.
    pub(crate) fn not_before(self, signed_at: i64) -> Self {
        Self { time: self.time.max(signed_at), ..self }
    }

    /// Sets the time, by a token that was issued in answer to a request of this installation. Only such a token may set the
    /// time back, so that a clock that once ran ahead does not invalidate every later token. A token that was kept from
    /// earlier may not, even if this installation has not seen it before.
    pub(crate) fn correct(self, time: i64) -> Self {
        Self { time, local: self.local, turned_back: false, corrections: self.corrections + 1 }
    }

    /// Whether the trusted time is ahead of the local clock: then one of the two is, or was, wrong.
    pub(crate) fn is_ahead(self) -> bool {
        self.time - self.local > TOLERANCE_MS
    }
}
