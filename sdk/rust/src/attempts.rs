//! The outcomes of the calls of this process: a value beside `Held`, which ends with the process. It explains the state and
//! decides when the next call may be. Times are in milliseconds of trusted time.

use crate::{random, timestamps, Operation, Reason};
use serde::Serialize;

#[derive(Clone, Debug)]
pub(crate) struct Attempts {
    pub(crate) is_store_read: bool,
    /// Why there is no token, before the service was asked.
    pub(crate) absence: Reason,
    /// The reason, if the last try to get a token failed.
    pub(crate) failure: Option<Reason>,
    /// The most recent problem, unless a later success has ended it.
    pub(crate) problem: Option<Problem>,
    /// When the service may be asked again for a token.
    pub(crate) token: Backoff,
    /// When the service may be asked again for a revocation list.
    pub(crate) list: Backoff,
}

/// The problem in the last contact of its kind, for a log or a support page; never needed for a decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Problem {
    /// Which call had it.
    pub operation: Operation,
    /// The kind of problem.
    pub code: Reason,
    /// An explanation in English.
    pub detail: String,
    /// When it was, ISO 8601 UTC.
    pub at: String,
}

/// A problem before it is recorded; also an answer that is none, or not a valid one.
#[derive(Clone, Debug)]
pub(crate) struct Trouble {
    pub(crate) code: Reason,
    pub(crate) detail: String,
    /// The wait that the service asked for.
    pub(crate) retry_after_ms: Option<i64>,
}

impl Trouble {
    pub(crate) fn new(code: Reason, detail: impl Into<String>) -> Self {
        Self { code, detail: detail.into(), retry_after_ms: None }
    }
}

impl Attempts {
    /// The attempts of a client that was just created.
    pub(crate) fn none() -> Self {
        let (token, list) = (Backoff::default(), Backoff::default());
        let absence = Reason::NOT_ACTIVATED;
        Self { is_store_read: false, absence, failure: None, problem: None, token, list }
    }

    /// Records the problem of an operation at `time`. A success ends the problem of the same operation only.
    pub(crate) fn record(&mut self, operation: Operation, trouble: Option<&Trouble>, time: i64) {
        if let Some(Trouble { code, detail, .. }) = trouble {
            let (code, detail, at) = (code.clone(), detail.clone(), timestamps::to_text(time));
            self.problem = Some(Problem { operation, code, detail, at });
        } else if self.problem.as_ref().is_some_and(|problem| problem.operation == operation) {
            self.problem = None;
        }
    }

    /// There is another token, or none any more: former failures and problems of tokens have ended.
    pub(crate) fn end_token_problems(&mut self) {
        use Operation::{CallHome, Check, Internal, Store};
        self.failure = None;
        self.problem.take_if(|problem| !matches!(problem.operation, Check | CallHome | Store | Internal));
    }
}

/// When the service may be called again for one kind of request. All values are milliseconds of trusted time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Backoff {
    pub(crate) failures: u32,
    /// When the background tries again after a failure.
    retry_at: i64,
    /// No call before this time (`Retry-After`).
    blocked_until: i64,
}

const FIRST_DELAY_MS: i64 = 30_000;
const MAX_DELAY_MS: i64 = 3_600_000;

impl Backoff {
    /// The pace after a failure: 30 s, doubling to an hour, shortened by up to half at random, so that products do not retry
    /// together.
    pub(crate) fn after_failure(self, time: i64, retry_after_ms: Option<i64>, max_ms: Option<i64>) -> Self {
        let longest =
            (FIRST_DELAY_MS << self.failures.min(20)).min(max_ms.unwrap_or(MAX_DELAY_MS)).min(MAX_DELAY_MS);
        let delay = longest - (longest as f64 * random::fraction() / 2.0) as i64;
        Self {
            failures: self.failures + 1,
            retry_at: time + delay.max(retry_after_ms.unwrap_or(0)),
            blocked_until: retry_after_ms.map_or(0, |wait| time + wait),
        }
    }

    /// Whether a `Retry-After` of the service has not passed yet.
    pub(crate) fn is_blocked(self, time: i64) -> bool {
        is_ahead(self.blocked_until, time)
    }

    /// The earliest time, from `wanted` on, at which the background may try.
    pub(crate) fn earliest(self, wanted: i64, time: i64) -> i64 {
        if is_ahead(self.retry_at, time) {
            wanted.max(self.retry_at)
        } else {
            wanted
        }
    }
}

/// Whether a time is in the future. If it is further ahead than the longest wait, a wrong clock has set it: it is ignored.
fn is_ahead(moment: i64, time: i64) -> bool {
    moment > time && moment - time <= MAX_DELAY_MS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_to_an_hour_and_are_shortened_by_half_at_most() {
        let mut backoff = Backoff::default();
        let mut waits = Vec::new();
        for _ in 0..9 {
            backoff = backoff.after_failure(1000, None, None);
            waits.push((backoff.retry_at - 1000) / 1000);
        }
        for (wait, longest) in waits.into_iter().zip([30, 60, 120, 240, 480, 960, 1920, 3600, 3600]) {
            assert!((longest / 2..=longest).contains(&wait), "{wait} of {longest}");
        }
        let short = Backoff::default().after_failure(0, None, Some(2000));
        assert!((1000..=2000).contains(&short.retry_at));
    }

    #[test]
    fn retry_after_blocks_calls_unless_a_wrong_clock_set_it() {
        let backoff = Backoff::default().after_failure(0, Some(600_000), None);
        assert!(backoff.is_blocked(599_999) && !backoff.is_blocked(600_000));
        assert!(!backoff.is_blocked(600_000 - MAX_DELAY_MS - 1));
        assert_eq!(backoff.earliest(1, 0), 600_000);
        assert_eq!(backoff.earliest(700_000, 0), 700_000);
    }
}
