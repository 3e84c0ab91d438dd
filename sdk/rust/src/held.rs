//! The verified knowledge of an installation. `merge` joins two processes' knowledge, `apply` adds an answer of the service,
//! `absorb` adds the content of the store. Times are in milliseconds since 1970 UTC.

use crate::time::{SeenTime, TOLERANCE_MS};
use crate::trust::{Keys, RevocationList, TokenClaims};
use crate::Reason;
use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::Arc;

#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub(crate) licence: Licence,
    /// The keys that verify texts of the service.
    pub(crate) keys: Option<Arc<Keys>>,
    /// The known revocations, by licence id. The store keeps the entry of its token's licence.
    pub(crate) revocations: HashMap<String, Revocations>,
    pub(crate) time: SeenTime,
}

/// The part that is replaced as a whole, by the process that changed it last.
#[derive(Clone, Debug, Default)]
pub(crate) struct Licence {
    /// How often a process has replaced this part: the higher number is newer. 0: an empty store.
    pub(crate) revision: u64,
    pub(crate) key: Option<String>,
    /// The legacy key that was exchanged for `key`.
    pub(crate) legacy_key: Option<String>,
    /// The latest token, even if it has ended.
    pub(crate) token: Option<Arc<Token>>,
    /// The reason with which the service last refused a token.
    pub(crate) refusal: Option<String>,
    /// The nonce with which an offline file may set the time back; none if no file may.
    pub(crate) nonce: Option<String>,
}

#[derive(Debug)]
pub(crate) struct Token {
    pub(crate) jws: String,
    pub(crate) claims: TokenClaims,
    /// The key set of the offline file that it came in; none for a token of the service.
    pub(crate) file_keys: Option<Arc<Keys>>,
    /// The activation held a lease of a floating licence when the token was issued.
    pub(crate) floating: bool,
    /// The fingerprint that it was issued to, if this machine has another one since.
    pub(crate) former_fingerprint: Option<String>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Revocations {
    /// The list that was last accepted.
    pub(crate) list: Option<Arc<HeldList>>,
    /// An authentic list that names the licence: it is revoked, and no later answer changes that.
    pub(crate) named_by: Option<Arc<str>>,
}

/// A list, and what the service said of it. After its `expires_at` it is outdated, even if an unsigned answer confirms it.
#[derive(Clone, Debug)]
pub(crate) struct HeldList {
    pub(crate) content: RevocationList,
    pub(crate) etag: Option<String>,
    /// The `since` of the request that the ETag answers.
    pub(crate) etag_since: Option<u64>,
    /// When the service last said that this is the latest list; none before it was read to its end.
    pub(crate) checked_at: Option<i64>,
}

/// An answer of the service, or an offline file, that was verified.
pub(crate) enum Verified {
    /// `nonce` is the one of the request. `licence_key` is that of a new trial.
    Token {
        token: Arc<Token>,
        nonce: Option<String>,
        licence_key: Option<String>,
    },
    /// Without a reason the last refusal ends.
    Refusal(Option<Reason>),
    /// The service freed the activation, or ended its lease.
    Freed,
    /// A legacy key was exchanged.
    Exchange {
        legacy_key: String,
        licence_key: String,
    },
    Keys(Keys),
    /// `since` is the one of the request.
    List {
        list: RevocationList,
        etag: Option<String>,
        since: Option<u64>,
    },
    /// The list held is the latest.
    ListUnchanged,
}

impl Held {
    /// The knowledge of a client that was given a licence key, or none.
    pub(crate) fn empty(key: Option<String>, local: i64) -> Self {
        let licence = Licence { key, ..Licence::default() };
        Self { licence, keys: None, revocations: HashMap::new(), time: SeenTime::first(local) }
    }

    /// The token of this machine.
    pub(crate) fn token(&self) -> Option<&Arc<Token>> {
        self.licence.token.as_ref().filter(|token| token.former_fingerprint.is_none())
    }

    pub(crate) fn claims(&self) -> Option<&TokenClaims> {
        self.token().map(|token| &token.claims)
    }

    fn of_licence(&self) -> Option<&Revocations> {
        self.revocations.get(&self.claims()?.licence_id)
    }

    /// The revocation list of the token's licence.
    pub(crate) fn list(&self) -> Option<&Arc<HeldList>> {
        self.of_licence()?.list.as_ref()
    }

    /// The list that names the token's licence: it is revoked.
    pub(crate) fn named_by(&self) -> Option<&Arc<str>> {
        self.of_licence()?.named_by.as_ref()
    }

    /// Reads the local clock.
    pub(crate) fn observe(&mut self, local: i64) {
        self.time = self.time.observe(local);
    }

    /// Adds what the store has. The clock has been read before.
    pub(crate) fn absorb(&mut self, mut stored: Held) {
        stored.time = stored.time.admit(self.time);
        self.merge(stored);
        self.settle();
    }

    /// Joins the knowledge of two processes that share a store. Commutative, associative and idempotent, so that neither the
    /// order of saves nor their number matters. Both times must have been continued to the same local clock.
    pub(crate) fn merge(&mut self, theirs: Held) {
        self.licence = merge_licences(&self.licence, theirs.licence);
        self.keys = merge_keys(self.keys.take(), theirs.keys);
        for (id, theirs) in theirs.revocations {
            let mine = self.revocations.entry(id).or_default();
            mine.list = merge_lists(mine.list.take(), theirs.list);
            mine.named_by = greater(mine.named_by.take(), theirs.named_by);
        }
        self.time = self.time.merge(theirs.time);
    }

    /// Makes the parts of a value that was read or changed agree: the time is not before what the service has signed, and
    /// nothing was confirmed in the future. A former time may have been ahead.
    fn settle(&mut self) {
        let signed =
            [self.claims().map(|claims| claims.issued_at), self.list().map(|list| list.content.issued_at)];
        self.time = signed.into_iter().flatten().fold(self.time, SeenTime::not_before);
        let time = self.time.time;
        if let Some(keys) = self.keys.as_ref().filter(|keys| keys.jws.is_none() && keys.issued_at > time) {
            self.keys = Some(Arc::new(Keys::unsigned(keys.keys.clone(), time)));
        }
        if self.list().and_then(|list| list.checked_at).is_some_and(|checked_at| checked_at > time) {
            self.change_list(|list| list.checked_at = Some(time));
        }
    }

    /// Adds an answer. The clock has been read before.
    pub(crate) fn apply(&mut self, answer: Verified) {
        match answer {
            Verified::Token { token, nonce, licence_key } => {
                let time = self.time_after(&token, nonce.as_deref());
                let key = licence_key.or(self.licence.key.take());
                self.replace(|licence| {
                    let (revision, legacy_key) = (licence.revision, licence.legacy_key.take());
                    let token = Some(token);
                    *licence = Licence { revision, legacy_key, key, token, refusal: None, nonce: None };
                });
                self.time = time;
                self.settle();
            }
            Verified::Refusal(reason) => {
                self.licence.refusal = reason.map(|reason| reason.as_str().to_string());
            }
            Verified::Freed => self.replace(|licence| {
                licence.token = None;
                licence.refusal = None;
            }),
            Verified::Exchange { legacy_key, licence_key } => self.replace(|licence| {
                licence.legacy_key = Some(legacy_key);
                licence.key = Some(licence_key);
                licence.refusal = None;
            }),
            Verified::Keys(keys) => self.keys = Some(Arc::new(keys)),
            Verified::List { list, etag, since } => self.apply_list(list, etag, since),
            Verified::ListUnchanged => {
                let time = self.time.time;
                self.change_list(|list| list.checked_at = Some(time));
            }
        }
    }

    fn replace(&mut self, change: impl FnOnce(&mut Licence)) {
        change(&mut self.licence);
        self.licence.revision += 1;
    }

    /// A token that answers this request sets the time, even if the clock is ahead, so that a clock with a constant error
    /// does no harm. A file does that only with the nonce of the store, and sets it to the local clock, because the file may
    /// be old. Any other token only shows that it is not earlier.
    fn time_after(&self, token: &Token, nonce: Option<&str>) -> SeenTime {
        let issued_at = token.claims.issued_at;
        if nonce.is_none() || token.claims.nonce.as_deref() != nonce {
            return self.time.not_before(issued_at);
        }
        let now = if token.file_keys.is_some() { self.time.local } else { issued_at };
        let held = self.claims().map_or(0, |claims| claims.issued_at);
        let list = self.list().map_or(0, |list| list.content.issued_at);
        self.time.correct(now.max(issued_at).max(held).max(list))
    }

    fn apply_list(&mut self, list: RevocationList, etag: Option<String>, since: Option<u64>) {
        let Some(id) = self.claims().map(|claims| claims.licence_id.clone()) else { return };
        let is_accepted = self.acceptance_of(&list).is_ok();
        let time = self.time.not_before(list.issued_at);
        let checked_at = match list.more {
            true => self.list().and_then(|held| held.checked_at),
            false => Some(time.time),
        };
        let held = self.revocations.entry(id.clone()).or_default();
        if list.names(&id) {
            held.named_by = Some(list.jws.clone());
        }
        if is_accepted {
            held.list = Some(Arc::new(HeldList { content: list, etag, etag_since: since, checked_at }));
            self.time = time;
        }
    }

    /// Whether an authentic list may replace the current one. A licence that it names is revoked in any case: a revocation is
    /// permanent, so an old list proves it as well as a new one.
    pub(crate) fn acceptance_of(&self, list: &RevocationList) -> Result<(), Reason> {
        let current = self.list().map(|held| held.content.version);
        if list.expires_at + TOLERANCE_MS <= self.time.time.max(list.issued_at) {
            Err(Reason::LIST_EXPIRED)
        } else if current.is_some_and(|version| list.version < version) {
            Err(Reason::LIST_OUTDATED)
        } else if list.since.is_some_and(|since| current.is_none_or(|version| since > version)) {
            Err(Reason::LIST_GAP)
        } else {
            Ok(())
        }
    }

    fn change_list(&mut self, change: impl FnOnce(&mut HeldList)) {
        let Some(id) = self.claims().map(|claims| claims.licence_id.clone()) else { return };
        if let Some(list) = self.revocations.get_mut(&id).and_then(|held| held.list.as_mut()) {
            change(Arc::make_mut(list));
        }
    }

    /// Whether the next request for an offline file needs a nonce, so that the file can set the time back: nothing is granted,
    /// and the trusted time is ahead of the local clock. So an older file never sets the time back.
    pub(crate) fn needs_nonce(&self) -> bool {
        let has_ended = self.claims().is_none_or(|claims| claims.has_ended(self.time.time));
        self.licence.nonce.is_none() && self.time.is_ahead() && has_ended
    }
}

fn merge_licences(mine: &Licence, theirs: Licence) -> Licence {
    match rank_of(mine).cmp(&rank_of(&theirs)) {
        Ordering::Greater => mine.clone(),
        Ordering::Less => theirs,
        Ordering::Equal => Licence {
            key: greater(mine.key.clone(), theirs.key),
            legacy_key: greater(mine.legacy_key.clone(), theirs.legacy_key),
            refusal: greater(mine.refusal.clone(), theirs.refusal),
            nonce: greater(mine.nonce.clone(), theirs.nonce),
            ..mine.clone()
        },
    }
}

/// The higher rank is newer. If two processes replaced the licence at once, an activation that was freed stays freed.
fn rank_of(licence: &Licence) -> (u64, u8, i64, i64, String) {
    let revision = licence.revision;
    let Some(token) = &licence.token else {
        return (revision, if revision == 0 { 0 } else { 2 }, 0, 0, String::new());
    };
    let file_keys = token.file_keys.as_ref().and_then(|keys| keys.jws.as_ref());
    let text = serde_json::json!([token.jws, file_keys, token.floating, token.former_fingerprint]);
    (revision, 1, token.claims.issued_at, token.claims.expires_at, text.to_string())
}

/// The later set. If both are of one second, the set with more keys, because a rotation adds a key.
pub(crate) fn merge_keys(mine: Option<Arc<Keys>>, theirs: Option<Arc<Keys>>) -> Option<Arc<Keys>> {
    later(mine, theirs, |keys| {
        (keys.issued_at, keys.keys.len(), keys.jws.clone(), format!("{:?}", keys.keys))
    })
}

fn merge_lists(mine: Option<Arc<HeldList>>, theirs: Option<Arc<HeldList>>) -> Option<Arc<HeldList>> {
    if mine.as_ref().map(|list| &list.content.jws) == theirs.as_ref().map(|list| &list.content.jws) {
        return later(mine, theirs, |list| (list.checked_at, list.etag_since, list.etag.clone()));
    }
    later(mine, theirs, |list| (list.content.version, list.content.issued_at, list.content.jws.clone()))
}

/// The value with the higher rank. None is the lowest.
fn later<T, R: Ord>(mine: Option<T>, theirs: Option<T>, rank: impl Fn(&T) -> R) -> Option<T> {
    match (mine, theirs) {
        (Some(mine), Some(theirs)) => Some(if rank(&theirs) > rank(&mine) { theirs } else { mine }),
        (mine, theirs) => mine.or(theirs),
    }
}

fn greater<T: Ord>(mine: Option<T>, theirs: Option<T>) -> Option<T> {
    mine.max(theirs)
}
