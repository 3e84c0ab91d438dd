//! The text of a store: JSON. It is not trusted, and everything in it is verified again.

use crate::held::{merge_keys, Held, HeldList, Licence, Revocations, Token};
use crate::signature::Object;
use crate::time::SeenTime;
use crate::trust::{self, count, read_list, Identity, Keys, RevocationList, Trust};
use crate::{timestamps, Reason};
use serde::{de::Error, Deserialize, Deserializer, Serialize, Serializer};
use std::collections::HashMap;
use std::sync::Arc;

/// A field without `default` must be there, also if it may be null: otherwise the record is ignored as a whole.
#[derive(Serialize, Deserialize)]
struct StoredRecord {
    format: u8,
    app_id: String,
    #[serde(deserialize_with = "Option::deserialize")]
    licence_key: Option<String>,
    #[serde(deserialize_with = "Option::deserialize")]
    legacy_key: Option<String>,
    fingerprint: String,
    #[serde(deserialize_with = "Option::deserialize")]
    token: Option<String>,
    #[serde(default)]
    floating: bool,
    #[serde(deserialize_with = "Option::deserialize")]
    refusal: Option<String>,
    #[serde(default)]
    signed_keys: Option<String>,
    #[serde(deserialize_with = "Option::deserialize")]
    jwks: Option<KeySet>,
    #[serde(default)]
    jwks_at: Timestamp,
    #[serde(default)]
    file_keys: Option<String>,
    #[serde(deserialize_with = "Option::deserialize")]
    revocations: Option<StoredRevocations>,
    seen: StoredTime,
    #[serde(default)]
    revision: Count,
    #[serde(default)]
    nonce: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct KeySet {
    keys: Vec<Object>,
}

#[derive(Serialize, Deserialize)]
struct StoredRevocations {
    #[serde(deserialize_with = "Option::deserialize")]
    list: Option<String>,
    #[serde(deserialize_with = "Option::deserialize")]
    named_by: Option<String>,
    #[serde(deserialize_with = "Option::deserialize")]
    etag: Option<String>,
    #[serde(deserialize_with = "Option::deserialize")]
    etag_since: Option<Count>,
    checked_at: Timestamp,
}

#[derive(Serialize, Deserialize)]
struct StoredTime {
    time: Timestamp,
    local: Timestamp,
    #[serde(default)]
    turned_back: bool,
    #[serde(default)]
    corrections: Count,
}

/// A time in milliseconds, as ISO 8601.
#[derive(Default)]
struct Timestamp(i64);

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&timestamps::to_text(self.0))
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        timestamps::parse(&text).map(Self).ok_or_else(|| D::Error::custom("not a time"))
    }
}

/// A whole number from 0.
#[derive(Default, Serialize)]
struct Count(u64);

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = serde_json::Value::deserialize(deserializer)?;
        count(&value).map(Self).ok_or_else(|| D::Error::custom("not a whole number from 0"))
    }
}

/// The content of the store, as read for this installation.
pub(crate) struct Found {
    /// The verified content, as far as it is for this installation.
    pub(crate) held: Held,
    /// Why the store has no token for this installation; none if it has, or if it never had one.
    pub(crate) absence: Option<Reason>,
    /// The revision of a record of another licence key or machine, which must not be overwritten by an older one.
    pub(crate) foreign_revision: Option<u64>,
}

/// Reads and verifies the text of the store. `mine` is the knowledge so far, after the clock was read.
pub(crate) fn read_record(text: Option<&str>, mine: &Held, identity: &Identity) -> Found {
    let empty = |absence| Found {
        held: Held::empty(identity.licence_key.clone(), mine.time.local),
        absence,
        foreign_revision: None,
    };
    let Some(text) = text else { return empty(None) };
    let Some(record) = serde_json::from_str::<StoredRecord>(text).ok().filter(|record| record.format == 1)
    else {
        return empty(Some(Reason::STORE_CORRUPT));
    };
    if record.app_id != identity.app_id {
        return empty(None);
    }
    let StoredTime { time, local, turned_back, corrections } = &record.seen;
    let time =
        SeenTime { time: time.0, local: local.0, turned_back: *turned_back, corrections: corrections.0 };
    let now = mine.time.merge(time.admit(mine.time)).time;
    let stored_keys = match &identity.trust {
        Trust::Unpinned => record.jwks.as_ref().map(|set| Keys::unsigned(set.keys.clone(), record.jwks_at.0)),
        Trust::Pinned(_) => {
            record.signed_keys.as_ref().and_then(|jws| trust::read_stored_keys(jws, identity))
        }
    };
    let stored_keys = stored_keys.map(Arc::new);
    let keys = merge_keys(mine.keys.clone(), stored_keys.clone());
    let (licence, absence, foreign_revision) = read_licence(&record, mine, identity, keys.as_deref(), now);
    let revocations = match &record.revocations {
        Some(stored) => read_revocations(stored, &licence, mine, keys.as_deref(), &identity.app_id),
        None => HashMap::new(),
    };
    Found { held: Held { licence, keys: stored_keys, revocations, time }, absence, foreign_revision }
}

/// The licence of a record. That of another key or machine is not ours, unless this machine has none yet.
fn read_licence(
    record: &StoredRecord,
    mine: &Held,
    identity: &Identity,
    keys: Option<&Keys>,
    now: i64,
) -> (Licence, Option<Reason>, Option<u64>) {
    let revision = record.revision.0;
    let none = || Licence { key: identity.licence_key.clone(), ..Licence::default() };
    if let (Some(given), Some(stored)) = (&identity.licence_key, &record.licence_key) {
        if !is_same_key(given, stored) {
            return (none(), Some(Reason::LICENCE_KEY_CHANGED), Some(revision));
        }
    }
    let mut licence = Licence {
        revision,
        key: identity.licence_key.clone().or_else(|| record.licence_key.clone()),
        legacy_key: record.legacy_key.clone(),
        token: None,
        refusal: None,
        nonce: record.nonce.clone(),
    };
    let Some(jws) = &record.token else { return (licence, None, None) };
    let read =
        trust::read_stored_token(jws, record.file_keys.as_deref(), &record.fingerprint, keys, identity, now);
    let has_token = mine.token().is_some();
    let Some((claims, file_keys)) = read else {
        return (if has_token { none() } else { licence }, Some(Reason::STORE_CORRUPT), None);
    };
    let is_ours = record.fingerprint == identity.fingerprint;
    if !is_ours && has_token {
        return (none(), None, Some(revision));
    }
    let former_fingerprint = (!is_ours).then(|| record.fingerprint.clone());
    let token = Token { jws: jws.clone(), claims, file_keys, floating: record.floating, former_fingerprint };
    licence.token = Some(Arc::new(token));
    licence.refusal = record.refusal.clone().filter(|_| is_ours);
    (licence, (!is_ours).then_some(Reason::FINGERPRINT_CHANGED), None)
}

/// Only letters and digits of a licence key count, and letters that Crockford's base 32 lacks are the digits that they resemble.
fn is_same_key(one: &str, other: &str) -> bool {
    let characters = |key: &str| key.to_ascii_uppercase().replace(|c: char| !c.is_ascii_alphanumeric(), "");
    let digits = |key: &str| characters(key).replace('O', "0").replace(['I', 'L'], "1");
    digits(one) == digits(other)
}

/// The authentic lists of a record. Their keys may have ended, because a licence that a list names stays revoked. A list that
/// names a licence counts for that, whatever else the record says; the list held is for the record's licence.
fn read_revocations(
    stored: &StoredRevocations,
    licence: &Licence,
    mine: &Held,
    keys: Option<&Keys>,
    app_id: &str,
) -> HashMap<String, Revocations> {
    let texts = [&stored.named_by, &stored.list].into_iter().flatten();
    let lists: Vec<RevocationList> = texts.filter_map(|jws| read_list(jws, keys, app_id).ok()).collect();
    let of_record = licence.token.as_ref().map(|token| token.claims.licence_id.as_str());
    let of_mine = mine.claims().map(|claims| claims.licence_id.as_str());
    let revocations_of = |id: &str| Revocations {
        named_by: lists.iter().find(|list| list.names(id)).map(|list| list.jws.clone()),
        list: lists
            .iter()
            .find(|list| of_record == Some(id) && stored.list.as_deref() == Some(&*list.jws))
            .map(|list| Arc::new(held_list(list.clone(), stored))),
    };
    of_record.into_iter().chain(of_mine).map(|id| (id.to_string(), revocations_of(id))).collect()
}

fn held_list(content: RevocationList, stored: &StoredRevocations) -> HeldList {
    HeldList {
        content,
        etag: stored.etag.clone(),
        etag_since: stored.etag_since.as_ref().map(|since| since.0),
        checked_at: Some(stored.checked_at.0),
    }
}

/// The text that the store keeps.
pub(crate) fn write_record(held: &Held, identity: &Identity) -> String {
    let Held { licence, keys, time, .. } = held;
    let token = licence.token.as_deref();
    let former_fingerprint = token.and_then(|token| token.former_fingerprint.clone());
    let unsigned = keys.as_ref().filter(|keys| keys.jws.is_none());
    let record = StoredRecord {
        format: 1,
        app_id: identity.app_id.clone(),
        licence_key: licence.key.clone(),
        legacy_key: licence.legacy_key.clone(),
        fingerprint: former_fingerprint.unwrap_or_else(|| identity.fingerprint.clone()),
        token: token.map(|token| token.jws.clone()),
        floating: token.is_some_and(|token| token.floating),
        refusal: licence.refusal.clone().filter(|_| held.token().is_some()),
        signed_keys: keys.as_ref().and_then(|keys| keys.jws.clone()),
        jwks: unsigned.map(|keys| KeySet { keys: keys.keys.clone() }),
        jwks_at: Timestamp(unsigned.map_or(0, |keys| keys.issued_at)),
        file_keys: token.and_then(|token| token.file_keys.as_ref()?.jws.clone()),
        revocations: write_revocations(held),
        seen: StoredTime {
            time: Timestamp(time.time),
            local: Timestamp(time.local),
            turned_back: time.turned_back,
            corrections: Count(time.corrections),
        },
        revision: Count(licence.revision),
        nonce: licence.nonce.clone(),
    };
    serde_json::to_string(&record).expect("a record of texts and numbers is JSON")
}

fn write_revocations(held: &Held) -> Option<StoredRevocations> {
    let (list, named_by) = (held.list(), held.named_by());
    if list.is_none() && named_by.is_none() {
        return None;
    }
    Some(StoredRevocations {
        list: list.map(|list| list.content.jws.to_string()),
        named_by: named_by.map(|jws| jws.to_string()),
        etag: list.and_then(|list| list.etag.clone()),
        etag_since: list.and_then(|list| list.etag_since).map(Count),
        checked_at: Timestamp(list.and_then(|list| list.checked_at).unwrap_or(held.time.time)),
    })
}
