use crate::attempts::{Attempts, Problem};
use crate::held::Held;
use crate::{timestamps, Reason, Revocations, Status};
use serde::Serialize;

/// Everything that a product may need to know about its licence, at one moment. Times are ISO 8601 UTC.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct State {
    /// Whether and how the product is licensed.
    pub status: Status,
    /// Whether features and limits are granted now: `status` is `Licensed` or `Grace`.
    pub usable: bool,
    /// Why the product is not licensed; none when `Licensed` or `Starting`.
    pub reason: Option<Reason>,
    /// The id of the licence, `lic_…`.
    pub licence_id: Option<String>,
    /// The id of the activation of this machine, `act_…`.
    pub activation_id: Option<String>,
    /// The id of the plan, `pln_…`.
    pub plan_id: Option<String>,
    /// The status of the licence when the service signed the token: `active` or `downgraded`.
    pub licence_status: Option<String>,
    /// The number of seats the product should enforce; none for no such limit.
    pub seats: Option<i64>,
    /// The product may be updated to releases until this time; none: to all. See `Client::covers`.
    pub updates_until: Option<String>,
    /// The token's end.
    pub expires_at: Option<String>,
    /// Half of the token's life, when renewal begins; for an offline token its end.
    pub refresh_after: Option<String>,
    /// Whether the token came in a file, by `Client::activate_offline`.
    pub offline: bool,
    /// How fresh the revocation list is.
    pub revocations: Revocations,
    /// The local clock was turned back, and no token has been issued since. The trusted time continues from its last value.
    pub clock_turned_back: bool,
    /// The most recent problem, unless a later success has ended it.
    pub problem: Option<Problem>,
}

/// The table of states: the first line that applies decides.
pub(crate) fn status_of(held: &Held, attempts: &Attempts) -> (Status, Option<Reason>) {
    if !attempts.is_store_read {
        return (Status::Starting, None);
    }
    let refusal = held.licence.refusal.clone().map(Reason::from);
    if held.named_by().is_some() || refusal == Some(Reason::REVOKED) {
        return (Status::Refused, Some(Reason::REVOKED));
    }
    let failure = attempts.failure.clone();
    let time = held.time.time;
    match (held.claims(), refusal) {
        (None, Some(refusal)) => (Status::Refused, Some(refusal)),
        (None, None) => (Status::Unlicensed, failure.or(Some(attempts.absence.clone()))),
        (Some(claims), Some(refusal)) if claims.has_ended(time) => (Status::Refused, Some(refusal)),
        (Some(claims), None) if claims.has_ended(time) => {
            (Status::Lapsed, failure.or(Some(Reason::TOKEN_EXPIRED)))
        }
        (Some(_), Some(refusal)) => (Status::Grace, Some(refusal)),
        (Some(claims), None) if failure.is_some() && time >= claims.refresh_after => (Status::Grace, failure),
        (Some(_), None) => (Status::Licensed, None),
    }
}

/// Whether features and limits are granted.
pub(crate) fn is_usable(held: &Held, attempts: &Attempts) -> bool {
    grants(status_of(held, attempts).0)
}

fn grants(status: Status) -> bool {
    matches!(status, Status::Licensed | Status::Grace)
}

/// The state at the time that was last observed.
pub(crate) fn state_of(held: &Held, attempts: &Attempts) -> State {
    let (status, reason) = status_of(held, attempts);
    let claims = held.claims();
    State {
        status,
        usable: grants(status),
        reason,
        licence_id: claims.map(|claims| claims.licence_id.clone()),
        activation_id: claims.map(|claims| claims.activation_id.clone()),
        plan_id: claims.and_then(|claims| claims.plan_id.clone()),
        licence_status: claims.and_then(|claims| claims.licence_status.clone()),
        seats: claims.and_then(|claims| claims.seats),
        updates_until: claims.and_then(|claims| claims.updates_until).map(timestamps::to_text),
        expires_at: claims.map(|claims| timestamps::to_text(claims.expires_at)),
        refresh_after: claims.map(|claims| timestamps::to_text(claims.refresh_after)),
        offline: claims.is_some_and(|claims| claims.offline),
        revocations: freshness_of(held),
        clock_turned_back: held.time.turned_back,
        problem: attempts.problem.clone(),
    }
}

fn freshness_of(held: &Held) -> Revocations {
    let Some(list) = held.list() else { return Revocations::Unknown };
    let time = held.time.time;
    let interval = held.claims().map_or(0, |claims| claims.check_interval_ms);
    let is_checked = list.checked_at.is_some_and(|checked_at| time - checked_at <= 2 * interval);
    if is_checked && !list.content.more && time < list.content.expires_at {
        Revocations::Current
    } else {
        Revocations::Stale
    }
}
