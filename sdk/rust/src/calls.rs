//! The calls of a product: which requests each one sends, and what follows from each answer. They read the two values of the
//! session, and change them only by `apply` and `record`.

use crate::attempts::{Attempts, Backoff, Trouble};
use crate::held::{Token, Verified};
use crate::service::{trouble_of, Answer, Call};
use crate::session::Session;
use crate::signature::Unreadable;
use crate::trust::{read_file, read_keys, read_list, read_token, time_for, FileToken, Identity};
use crate::{Operation, Reason};
use serde_json::{json, Value};
use std::sync::Arc;

/// A call of the product or of the background.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Task {
    Ready,
    Activate,
    StartTrial(String),
    ActivateOffline(String),
    Refresh,
    Check,
    Migrate(String),
    Release,
    Deactivate,
    CallHome,
}

impl Task {
    /// Whether the product asks for a licence with it: the background then repeats it after a failure.
    pub(crate) fn asks_for_licence(&self) -> bool {
        matches!(self, Self::Activate | Self::StartTrial(_) | Self::Migrate(_))
    }
}

/// The reasons of refusals, by operation. Any other refusal is a failure.
fn reason_of(operation: Operation, status: u16, code: &str) -> Option<Reason> {
    use Operation::{Activate, Migrate, Refresh, StartTrial};
    match (operation, status, code) {
        (Activate, 404, "not_found") => Some(Reason::UNKNOWN_LICENCE_KEY),
        (Refresh, 404, "not_found") => Some(Reason::ACTIVATION_FREED),
        (Migrate, 404, "not_found") => Some(Reason::UNKNOWN_LEGACY_KEY),
        (StartTrial, 404, "not_found") => Some(Reason::UNKNOWN_PLAN),
        (Refresh, 401, "unauthenticated") => Some(Reason::TOKEN_REJECTED),
        (Activate | StartTrial, 409, "limit_reached") => Some(Reason::LIMIT_REACHED),
        // The activation is known, so only a lease can be missing.
        (Refresh, 409, "limit_reached") => Some(Reason::NO_PLACE),
        (Activate | StartTrial, 409, "quota_exceeded") => Some(Reason::QUOTA_EXCEEDED),
        (StartTrial, 409, "plan_archived") => Some(Reason::PLAN_ARCHIVED),
        (Activate | Refresh | Migrate | StartTrial, 422, "validation_failed") => {
            Some(Reason::INVALID_REQUEST)
        }
        _ => None,
    }
}

/// The refusal in an answer.
fn refusal_in(operation: Operation, answer: &Answer) -> Option<Reason> {
    let Answer::Refusal { status, code, reason, .. } = answer else { return None };
    match (code.as_str(), reason.as_deref()) {
        ("licence_refused", _) => Some(Reason::from(reason.as_ref().unwrap_or(code).clone())),
        ("limit_reached", Some("max_concurrent")) => Some(Reason::NO_PLACE),
        _ => reason_of(operation, *status, code),
    }
}

/// The refusal in an answer, or else why it is no valid answer.
fn trouble_in(operation: Operation, answer: &Answer) -> Trouble {
    match (refusal_in(operation, answer), answer) {
        (Some(reason), Answer::Refusal { detail, .. }) => Trouble::new(reason, detail.clone()),
        _ => trouble_of(answer),
    }
}

/// The service has freed what was to be freed, or does not know it any more.
fn is_gone(answer: &Answer) -> bool {
    matches!(answer, Answer::Success { .. } | Answer::Refusal { status: 404, .. })
}

fn text_in(answer: &Answer, name: &str) -> Option<String> {
    let Answer::Success { body, .. } = answer else { return None };
    body.get(name)?.as_str().map(str::to_string)
}

fn activation_path(token: &Token) -> String {
    format!("/v1/activations/{}", percent_encoded(&token.claims.activation_id))
}

fn percent_encoded(text: &str) -> String {
    let encode = |byte: u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' => char::from(byte).to_string(),
        b'-' | b'_' | b'.' | b'!' | b'~' | b'*' | b'\'' | b'(' | b')' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(encode).collect()
}

/// A blank, a control character (but not NUL, which the service refuses), or a character that is not shown.
fn is_unseen(c: char) -> bool {
    matches!(c, '\u{1}'..='\u{1F}' | '\u{7F}'..='\u{9F}' | '\u{2800}') || c.is_whitespace() || is_ignorable(c)
}

/// Unicode's `Default_Ignorable_Code_Point`.
fn is_ignorable(c: char) -> bool {
    matches!(c, '\u{AD}' | '\u{34F}' | '\u{61C}' | '\u{115F}'..='\u{1160}' | '\u{17B4}'..='\u{17B5}'
        | '\u{180B}'..='\u{180F}' | '\u{200B}'..='\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2060}'..='\u{206F}'
        | '\u{3164}' | '\u{FE00}'..='\u{FE0F}' | '\u{FEFF}' | '\u{FFA0}' | '\u{FFF0}'..='\u{FFF8}'
        | '\u{1BCA0}'..='\u{1BCA3}' | '\u{1D173}'..='\u{1D17A}' | '\u{E0000}'..='\u{E0FFF}')
}

/// The outcome of a request for the list.
enum ListOutcome {
    /// The list goes on after this version.
    GoesOn(u64),
    Read,
    /// The service does not know the current version, or its list does not continue it.
    StartOver,
    Failed(Trouble),
}

/// A check reads at most this many answers, about a million licences. The next check goes on from there.
const MAX_ANSWERS: u32 = 64;

impl Session {
    /// Does a task. Its requests end at the deadline of the session.
    pub(crate) fn call(&self, task: &Task) {
        if task.asks_for_licence() {
            self.set_requested(true);
        }
        match task {
            Task::Ready => {}
            Task::Activate => self.activate_if_needed(),
            Task::StartTrial(plan_code) => self.start_trial(plan_code),
            Task::ActivateOffline(file) => self.activate_offline(file),
            Task::Refresh => self.refresh(),
            Task::Check => self.check(),
            Task::Migrate(legacy_key) => self.migrate(legacy_key),
            Task::Release => self.release(),
            Task::Deactivate => self.deactivate(),
            Task::CallHome => self.call_home(),
        }
        if matches!(task, Task::Release | Task::Deactivate) && self.held().token().is_none() {
            self.set_requested(false);
        }
    }

    // Activating

    fn activate_if_needed(&self) {
        if self.state().usable || self.is_revoked() {
            return;
        }
        let held = self.held();
        if held.token().is_some() && held.licence.key.is_none() {
            self.refresh()
        } else {
            self.activate()
        }
    }

    /// Activates the licence key, and receives a token.
    fn activate(&self) {
        let Some(key) = self.held().licence.key else {
            return self.record(|attempts| attempts.absence = Reason::NO_LICENCE_KEY);
        };
        if self.is_token_blocked() {
            return;
        }
        let nonce = self.new_nonce();
        let mut body = json!({ "licence_key": key });
        self.describe(&mut body, &nonce);
        let mut answer = self.post("/v1/activations".to_string(), body.clone(), None);
        let refusal = refusal_in(Operation::Activate, &answer);
        let is_full = [Reason::LIMIT_REACHED, Reason::NO_PLACE, Reason::QUOTA_EXCEEDED];
        if refusal.as_ref().is_some_and(|refusal| is_full.contains(refusal)) && self.free_former_activation()
        {
            answer = self.post("/v1/activations".to_string(), body, None);
        }
        let mut outcome = self.receive_token(answer, &nonce, None);
        // If the vendor has given the licence another key, the activation and its expired token can still be renewed.
        if refusal == Some(Reason::UNKNOWN_LICENCE_KEY) {
            outcome = match self.held().token() {
                Some(token) if self.renew_token(token).is_ok() => Ok(()),
                _ => outcome,
            };
        }
        self.record_token(Operation::Activate, outcome);
    }

    /// Adds the description of the installation to the body of a request.
    fn describe(&self, body: &mut Value, nonce: &str) {
        body["fingerprint"] = json!(self.parts.identity.fingerprint);
        body["host"] = json!(self.parts.host);
        body["product_version"] = json!(self.parts.product_version);
        body["nonce"] = json!(nonce);
    }

    fn post(&self, path: String, body: Value, token: Option<&str>) -> Answer {
        self.ask(&Call { method: "POST", path, body: Some(body), token, ..Call::default() })
    }

    /// Frees the activation that this machine has under its former fingerprint. False if there is none or it cannot be freed.
    fn free_former_activation(&self) -> bool {
        let token = self.held().licence.token.filter(|token| token.former_fingerprint.is_some());
        token.is_some_and(|token| is_gone(&self.delete(&token)))
    }

    fn delete(&self, token: &Token) -> Answer {
        let path = activation_path(token);
        self.ask(&Call { method: "DELETE", path, token: Some(&token.jws), ..Call::default() })
    }

    /// Starts a trial, or continues with the licence key of the trial that was started before.
    fn start_trial(&self, plan_code: &str) {
        if self.state().usable || self.is_revoked() {
            return;
        }
        if self.held().licence.key.is_some() {
            return self.activate();
        }
        if self.is_token_blocked() {
            return;
        }
        let nonce = self.new_nonce();
        let mut body = json!({ "plan_code": plan_code });
        self.describe(&mut body, &nonce);
        let answer = self.post(self.app_path("trials"), body, None);
        let licence_key = text_in(&answer, "licence_key");
        let outcome = self.receive_token(answer, &nonce, licence_key);
        self.record_token(Operation::StartTrial, outcome);
    }

    /// Exchanges a legacy key for a licence key, once, and activates with that.
    fn migrate(&self, given: &str) {
        let legacy_key = given.trim_matches(is_unseen);
        let licence = self.held().licence;
        let is_exchanged = licence.legacy_key.as_deref() == Some(legacy_key) && licence.key.is_some();
        let needs_token = if is_exchanged { !self.state().usable } else { self.exchange(legacy_key) };
        if needs_token {
            self.activate();
        }
    }

    fn exchange(&self, legacy_key: &str) -> bool {
        if self.is_token_blocked() {
            return false;
        }
        let answer = self.post(self.app_path("migrate"), json!({ "legacy_key": legacy_key }), None);
        if let Some(licence_key) = text_in(&answer, "key") {
            self.apply(Verified::Exchange { legacy_key: legacy_key.to_string(), licence_key });
            self.record_outcome(Operation::Migrate, None, false);
            return true;
        }
        // A failed exchange does not change the licence held.
        if self.held().token().is_some() {
            self.record_outcome(Operation::Migrate, Some(&trouble_in(Operation::Migrate, &answer)), false);
        } else {
            self.record_token(Operation::Migrate, Err(answer));
        }
        false
    }

    /// Reads an offline licence file, without network. If the file is refused, the licence held stays.
    fn activate_offline(&self, text: &str) {
        self.time();
        let held = self.held();
        match read_file(text, &self.parts.identity, &held) {
            Ok(FileToken { jws, claims, keys }) => {
                let file_keys = Some(keys);
                let token = Token { jws, claims, file_keys, floating: false, former_fingerprint: None };
                self.accept(token, held.licence.nonce, None);
                self.record_problem(Operation::ActivateOffline, None);
            }
            Err(refusal) => {
                if held.token().is_none() {
                    self.apply(Verified::Refusal(None));
                    self.record(|attempts| {
                        attempts.absence = refusal.clone();
                        attempts.failure = None;
                    });
                }
                let trouble = Trouble::new(refusal, "the licence file was refused");
                self.record_problem(Operation::ActivateOffline, Some(&trouble));
            }
        }
    }

    // With a token

    /// Requests a new token for the activation.
    fn refresh(&self) {
        let held = self.held();
        let Some(token) = held.token() else { return };
        if self.is_offline_now() || self.is_revoked() || self.is_token_blocked() {
            return;
        }
        let outcome = self.renew_token(token);
        let refusal = outcome.as_ref().err().and_then(|answer| refusal_in(Operation::Refresh, answer));
        // The activation was freed, or its token is too old. If there is a licence key, it is activated again.
        let needs_activation =
            [Some(Reason::TOKEN_REJECTED), Some(Reason::ACTIVATION_FREED)].contains(&refusal);
        if needs_activation && held.licence.key.is_some() {
            self.activate();
        } else {
            self.record_token(Operation::Refresh, outcome);
        }
    }

    /// Replaces the token by a new one of its activation.
    fn renew_token(&self, token: &Token) -> Result<(), Answer> {
        let nonce = self.new_nonce();
        let mut body = self.in_use();
        body["nonce"] = json!(nonce);
        let answer = self.post(format!("{}/refresh", activation_path(token)), body, Some(&token.jws));
        self.receive_token(answer, &nonce, None)
    }

    fn in_use(&self) -> Value {
        json!({ "product_version": self.parts.product_version, "host": self.parts.host })
    }

    /// Tells the service that this installation is in use, whatever the licence's status.
    fn call_home(&self) {
        let held = self.held();
        let Some(token) = held.token() else { return };
        if self.is_token_blocked() {
            return;
        }
        let answer =
            self.post(format!("{}/call-home", activation_path(token)), self.in_use(), Some(&token.jws));
        let is_success = matches!(answer, Answer::Success { .. });
        self.record_problem(Operation::CallHome, (!is_success).then(|| trouble_of(&answer)).as_ref());
    }

    /// Ends the lease of a floating licence, and then the use of the token. The activation stays.
    fn release(&self) {
        let held = self.held();
        let Some(token) = held.token() else { return };
        if self.is_offline_now() || self.is_token_blocked() {
            return;
        }
        let path = format!("{}/release", activation_path(token));
        let answer = self.ask(&Call { method: "POST", path, token: Some(&token.jws), ..Call::default() });
        self.record_freed(Operation::Release, &answer, token.floating.then_some(Reason::RELEASED));
    }

    /// Frees the activation at the service, then deletes the token.
    fn deactivate(&self) {
        let held = self.held();
        let Some(token) = held.token() else { return };
        if self.is_token_blocked() {
            return;
        }
        self.record_freed(Operation::Deactivate, &self.delete(token), Some(Reason::DEACTIVATED));
    }

    fn record_freed(&self, operation: Operation, answer: &Answer, absence: Option<Reason>) {
        if !is_gone(answer) {
            return self.record_outcome(operation, Some(&trouble_of(answer)), false);
        }
        if let Some(absence) = absence {
            self.apply(Verified::Freed);
            self.record(|attempts| {
                attempts.absence = absence;
                attempts.end_token_problems();
            });
        }
        self.record_outcome(operation, None, false);
    }

    // The revocation list

    /// Reads the revocation list to its end: the additions since the current version, or the whole list. What was received counts
    /// and is kept, also if a later answer fails. After a failure the current list stays, at most until the token ends.
    fn check(&self) {
        let held = self.held();
        let Some(claims) = held.claims() else { return };
        let is_blocked = self.attempts().list.is_blocked(self.time());
        if self.is_revoked() || is_blocked {
            return;
        }
        let mut outcome = self.read_list_from(held.list().map(|list| list.content.version));
        if matches!(outcome, ListOutcome::StartOver) {
            outcome = self.read_list_from(None);
        }
        let trouble = match outcome {
            ListOutcome::GoesOn(_) | ListOutcome::Read => None,
            ListOutcome::StartOver => {
                Some(Trouble::new(Reason::LIST_GAP, "the list does not continue the stored one"))
            }
            ListOutcome::Failed(trouble) => Some(trouble),
        };
        self.record_problem(Operation::Check, trouble.as_ref());
        let time = self.time();
        self.record(|attempts| {
            attempts.list = trouble.map_or_else(Backoff::default, |trouble| {
                attempts.list.after_failure(time, trouble.retry_after_ms, Some(claims.check_interval_ms))
            });
        });
    }

    fn read_list_from(&self, from: Option<u64>) -> ListOutcome {
        let mut outcome = self.request_list(from);
        for _ in 1..MAX_ANSWERS {
            match outcome {
                ListOutcome::GoesOn(_) if self.is_revoked() => return ListOutcome::Read,
                ListOutcome::GoesOn(version) => outcome = self.request_list(Some(version)),
                _ => break,
            }
        }
        outcome
    }

    fn request_list(&self, since: Option<u64>) -> ListOutcome {
        let query = since.map_or(String::new(), |since| format!("?since={since}"));
        let path = self.app_path("revocations") + &query;
        let time = self.time();
        let held = self.held();
        // A 304 is not signed, so a list that has ended must be read again.
        let confirmable =
            held.list().filter(|list| list.etag_since == since && time < list.content.expires_at);
        let if_none_match = confirmable.and_then(|list| list.etag.as_deref()).filter(|etag| !etag.is_empty());
        match self.ask(&Call { method: "GET", path, if_none_match, ..Call::default() }) {
            Answer::Refusal { status: 422, .. } if since.is_some() => ListOutcome::StartOver,
            Answer::Success { status: 304, .. } if if_none_match.is_some() => {
                self.apply(Verified::ListUnchanged);
                ListOutcome::Read
            }
            answer => self.receive_list(&answer, since),
        }
    }

    fn receive_list(&self, answer: &Answer, since: Option<u64>) -> ListOutcome {
        let failed = || ListOutcome::Failed(trouble_of(answer));
        // Only the signed text is used; the other fields are for people.
        let Some(jws) = text_in(answer, "signature") else { return failed() };
        let Answer::Success { etag, .. } = answer else { return failed() };
        let app_id = &self.parts.identity.app_id;
        let read = || match self.held().keys {
            Some(keys) if keys.expires_at <= self.time() => Err(Unreadable::UnknownKey),
            keys => read_list(&jws, keys.as_deref(), app_id),
        };
        let list = match self.read_signed(read, self.time()) {
            Ok(list) => list,
            Err(trouble) => return ListOutcome::Failed(trouble),
        };
        self.time();
        let acceptance = self.held().acceptance_of(&list);
        let (version, more) = (list.version, list.more);
        self.apply(Verified::List { list, etag: etag.clone(), since });
        // The first answers of a whole list have lower versions than the current one.
        let goes_on = more && since.is_none_or(|since| version > since);
        match acceptance {
            Ok(()) if goes_on => ListOutcome::GoesOn(version),
            Err(code) if goes_on && code == Reason::LIST_OUTDATED => ListOutcome::GoesOn(version),
            Ok(()) if more => failed(),
            Ok(()) => ListOutcome::Read,
            Err(code) if code == Reason::LIST_GAP && since.is_some() => ListOutcome::StartOver,
            Err(code) => {
                let detail = format!("version {version} is expired, or not newer than the stored list");
                ListOutcome::Failed(Trouble::new(code, detail))
            }
        }
    }

    // Steps that the calls share

    /// Reads the token of an answer to a request with `nonce`, and accepts it.
    fn receive_token(&self, answer: Answer, nonce: &str, licence_key: Option<String>) -> Result<(), Answer> {
        if !matches!(answer, Answer::Success { .. }) {
            return Err(answer);
        }
        let Some(jws) = text_in(&answer, "token") else { return Err(Answer::Failure(trouble_of(&answer))) };
        self.time();
        let time = time_for(&self.held(), &jws, Some(nonce));
        let Identity { app_id, fingerprint, .. } = &self.parts.identity;
        let read = || read_token(&jws, self.held().keys.as_deref(), app_id, fingerprint, time);
        let claims = self.read_signed(read, time).map_err(Answer::Failure)?;
        let ids = [text_in(&answer, "activation_id"), text_in(&answer, "licence_id")];
        if ids != [Some(claims.activation_id.clone()), Some(claims.licence_id.clone())] {
            let detail = "the token belongs to another activation";
            return Err(Answer::Failure(Trouble::new(Reason::UNTRUSTED_SIGNATURE, detail)));
        }
        let floating = text_in(&answer, "lease_ends_at").is_some();
        let token = Token { jws, claims, file_keys: None, floating, former_fingerprint: None };
        self.accept(token, Some(nonce.to_string()), licence_key);
        // Fetches the keys before they end, so that a start without the network has keys for a valid token. If this fails,
        // the token is accepted all the same.
        if self.are_keys_due() {
            let _ = self.fetch_keys(time);
        }
        Ok(())
    }

    fn accept(&self, token: Token, nonce: Option<String>, licence_key: Option<String>) {
        self.apply(Verified::Token { token: Arc::new(token), nonce, licence_key });
        self.record(Attempts::end_token_problems);
    }

    /// Whether half of the life of the keys is over. They are renewed then, so that no token lasts longer than its keys.
    fn are_keys_due(&self) -> bool {
        let half = |from: i64, to: i64| from.saturating_add(to.saturating_sub(from) / 2);
        let time = self.time();
        self.held().keys.is_some_and(|keys| time >= half(keys.issued_at, keys.expires_at))
    }

    /// Fetches the application's public keys and checks them at `time`.
    fn fetch_keys(&self, time: i64) -> Result<(), Trouble> {
        let answer = self.ask(&Call { method: "GET", path: self.app_path("jwks.json"), ..Call::default() });
        let Answer::Success { body, .. } = &answer else { return Err(trouble_of(&answer)) };
        let keys = read_keys(body, &self.parts.identity, self.held().keys.as_deref(), time);
        self.apply(Verified::Keys(keys.map_err(|code| {
            if code == Reason::UNEXPECTED_ANSWER {
                return trouble_of(&answer);
            }
            Trouble::new(
                code,
                "the keys are not signed by a root key of this product, have ended, or are old",
            )
        })?));
        Ok(())
    }

    /// Reads a signed text. If it is signed with an unknown key, the keys are fetched once.
    fn read_signed<T>(&self, read: impl Fn() -> Result<T, Unreadable>, time: i64) -> Result<T, Trouble> {
        let mut value = read();
        if matches!(value, Err(Unreadable::UnknownKey)) {
            self.fetch_keys(time)?;
            value = read();
        }
        let detail = "not signed by a key of this application";
        value.map_err(|_| Trouble::new(Reason::UNTRUSTED_SIGNATURE, detail))
    }

    /// Records a try to get a token: a success, a refusal, or a failure.
    fn record_token(&self, operation: Operation, outcome: Result<(), Answer>) {
        let Err(answer) = outcome else {
            let time = self.time();
            // If the new token is due for renewal already, another call would bring no better token, so the next one waits.
            let is_due = self.held().claims().is_some_and(|claims| time >= claims.refresh_after);
            return self.record_outcome(operation, None, is_due);
        };
        let trouble = trouble_in(operation, &answer);
        let refusal = refusal_in(operation, &answer);
        let failure = refusal.is_none().then(|| trouble.code.clone());
        if refusal.is_some() {
            self.apply(Verified::Refusal(refusal));
        }
        self.record(|attempts| attempts.failure = failure);
        self.record_outcome(operation, Some(&trouble), true);
    }

    /// Records how a request for a token ended, and when the next try may be.
    fn record_outcome(&self, operation: Operation, trouble: Option<&Trouble>, waits: bool) {
        self.record_problem(operation, trouble);
        let time = self.time();
        // A token of a short lease needs several tries between half of its life and its end.
        let max_ms = self.held().claims().map(|claims| (claims.expires_at - claims.issued_at) / 8);
        let retry_after_ms = trouble.and_then(|trouble| trouble.retry_after_ms);
        self.record(|attempts| {
            let next = attempts.token.after_failure(time, retry_after_ms, max_ms);
            attempts.token = if waits || trouble.is_some() { next } else { Backoff::default() };
        });
    }

    pub(crate) fn record_problem(&self, operation: Operation, trouble: Option<&Trouble>) {
        let time = self.time();
        self.record(|attempts| attempts.record(operation, trouble, time));
    }

    /// The service answered with a `Retry-After` that has not passed.
    fn is_token_blocked(&self) -> bool {
        self.attempts().token.is_blocked(self.time())
    }

    /// Whether the valid token came in a file. Only another file renews it, because tokens of the service are shorter.
    fn is_offline_now(&self) -> bool {
        let held = self.held();
        held.claims().is_some_and(|claims| claims.offline && !claims.has_ended(held.time.time))
    }

    fn is_revoked(&self) -> bool {
        self.held().named_by().is_some()
    }

    fn app_path(&self, resource: &str) -> String {
        format!("/v1/apps/{}/{resource}", percent_encoded(&self.parts.identity.app_id))
    }
}
