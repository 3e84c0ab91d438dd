//! When work of the background is due.

use crate::attempts::Attempts;
use crate::held::Held;
use crate::state::status_of;
use crate::Status;
use std::time::Duration;

/// Timers are late after a computer slept, so no timer is longer than a minute.
const MAX_SLEEP_MS: i64 = 60_000;
/// The shortest time between two checks.
const MIN_SLEEP_MS: i64 = 1000;

/// When each kind of background work is due, in milliseconds of trusted time.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct DueTimes {
    /// The current time.
    pub(crate) time: i64,
    pub(crate) list: Option<i64>,
    pub(crate) token: Option<i64>,
    /// When the token ends. The state changes then, and listeners are called.
    pub(crate) token_end: Option<i64>,
}

impl DueTimes {
    pub(crate) fn is_list_due(&self) -> bool {
        self.list.is_some_and(|list| list <= self.time)
    }

    pub(crate) fn is_token_due(&self) -> bool {
        self.token.is_some_and(|token| token <= self.time)
    }

    /// How long the timer sleeps; none if nothing will be due.
    pub(crate) fn sleep(&self) -> Option<Duration> {
        let next = [self.list, self.token, self.token_end].into_iter().flatten().min()?;
        let ms = (next - self.time).clamp(MIN_SLEEP_MS, MAX_SLEEP_MS);
        Some(Duration::from_millis(ms.unsigned_abs()))
    }
}

/// The work that is due, at the time that was last observed. `jitter` is a number from 0 to 1, constant for the life of a client:
/// it spreads installations that were started together.
pub(crate) fn due_times(held: &Held, attempts: &Attempts, is_requested: bool, jitter: f64) -> DueTimes {
    let time = held.time.time;
    let nothing = DueTimes { time, ..DueTimes::default() };
    if held.named_by().is_some() {
        return nothing;
    }
    let Some(claims) = held.claims() else {
        return DueTimes { token: activation_due(held, attempts, is_requested), ..nothing };
    };
    let life = if claims.offline { 0 } else { claims.expires_at - claims.issued_at };
    let is_urgent = held.time.turned_back && !claims.offline;
    let refresh = if is_urgent { time } else { claims.refresh_after + part(life, jitter) };
    let token = Some(attempts.token.earliest(refresh, time));
    if claims.has_ended(time) {
        return DueTimes { token, ..nothing };
    }
    // Up to a tenth earlier and never later, because a revocation must be noticed within the interval.
    let interval = claims.check_interval_ms - part(claims.check_interval_ms, jitter);
    let checked = held.list().filter(|list| !list.content.more).and_then(|list| list.checked_at);
    let check = checked.map_or(time, |checked_at| checked_at + interval);
    let list = Some(attempts.list.earliest(check, time));
    DueTimes { time, list, token, token_end: Some(claims.expires_at) }
}

/// Up to a tenth of a duration.
fn part(ms: i64, jitter: f64) -> i64 {
    (ms as f64 / 10.0 * jitter) as i64
}

/// A first activation that failed is retried. If it was refused, it is retried only when the product calls again.
fn activation_due(held: &Held, attempts: &Attempts, is_requested: bool) -> Option<i64> {
    let is_unlicensed = status_of(held, attempts).0 == Status::Unlicensed;
    let is_retried = is_requested && is_unlicensed && attempts.token.failures > 0;
    is_retried.then(|| attempts.token.earliest(held.time.time, held.time.time))
}
