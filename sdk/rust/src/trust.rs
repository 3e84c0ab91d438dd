//! From bytes to verified claims: root keys, key sets, tokens, revocation lists and offline files. Everything that the service
//! signs, wherever it came from, is read here. Times are in milliseconds since 1970 UTC.

use crate::held::Held;
use crate::signature::{key_id_of, unverified, verify, Object, Unreadable};
use crate::timestamps::{DAY_MS, MAX_MS};
use crate::Reason;
use serde_json::{json, Value};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// The installation that a text must have been signed for.
pub(crate) struct Identity {
    pub(crate) app_id: String,
    pub(crate) fingerprint: String,
    /// The key that the product was given; none to use the stored one.
    pub(crate) licence_key: Option<String>,
    pub(crate) trust: Trust,
}

// Root keys

/// The option `root_key`: one key, several, or `"unpinned"`.
///
/// ```
/// use licensing::RootKey;
/// let one: RootKey = "lrk_2H3KXBkDZTA56hcu2wXBvXmk9gfET3a_j42EbEqsMUs".into();
/// let several: RootKey = ["lrk_2H3KXBkDZTA56hcu2wXBvXmk9gfET3a_j42EbEqsMUs"].into();
/// ```
#[derive(Clone, Debug)]
pub enum RootKey {
    /// The application's root key, or `"unpinned"` to trust any key.
    One(String),
    /// Several root keys, while one is being replaced.
    Several(Vec<String>),
}

impl Default for RootKey {
    /// No key, which `Client::new` refuses.
    fn default() -> Self {
        Self::Several(Vec::new())
    }
}

impl From<&str> for RootKey {
    fn from(key: &str) -> Self {
        Self::One(key.to_string())
    }
}

impl From<String> for RootKey {
    fn from(key: String) -> Self {
        Self::One(key)
    }
}

impl From<Vec<String>> for RootKey {
    fn from(keys: Vec<String>) -> Self {
        Self::Several(keys)
    }
}

impl<const N: usize> From<[&str; N]> for RootKey {
    fn from(keys: [&str; N]) -> Self {
        Self::Several(keys.map(str::to_string).into())
    }
}

/// The root key is missing or malformed. A client without it would trust any key by mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidRootKey;

impl fmt::Display for InvalidRootKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "root_key must be the application's root_key (GET /v1/apps/{app_id}), or several; \"unpinned\" does without, \
             and lets anyone who can edit the store license the product",
        )
    }
}

impl std::error::Error for InvalidRootKey {}

/// The root keys that must have signed other keys.
pub(crate) enum Trust {
    Pinned(Vec<Object>),
    /// All keys are trusted.
    Unpinned,
}

pub(crate) fn read_trust(given: &RootKey) -> Result<Trust, InvalidRootKey> {
    let keys: Option<Vec<Object>> = match given {
        RootKey::One(key) if key == "unpinned" => return Ok(Trust::Unpinned),
        RootKey::One(key) => read_root_key(key).map(|key| vec![key]),
        RootKey::Several(keys) => keys.iter().map(|key| read_root_key(key)).collect(),
    };
    keys.filter(|keys| !keys.is_empty()).map(Trust::Pinned).ok_or(InvalidRootKey)
}

/// 32 bytes in base64url after `lrk_`: the last two bits of the last character are unused, and must be 0. The `kid` of a
/// root key is the text itself.
fn read_root_key(text: &str) -> Option<Object> {
    let x = text.strip_prefix("lrk_").filter(|x| x.len() == 43 && x.bytes().all(is_base64url))?;
    let is_canonical = x.ends_with(|last| "AEIMQUYcgkosw048".contains(last));
    is_canonical.then(|| Object::from_iter([("kid".to_string(), json!(text)), ("x".to_string(), json!(x))]))
}

fn is_base64url(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_'
}

// Values in payloads

/// Seconds since 1970 UTC, within the range of times, as milliseconds.
pub(crate) fn unix_time(value: Option<&Value>) -> Option<i64> {
    let seconds = value?.as_f64()?;
    (seconds.abs() <= MAX_MS as f64 / 1000.0).then_some((seconds * 1000.0) as i64)
}

/// A whole number from 0 that every JSON library reads exactly.
pub(crate) fn count(value: &Value) -> Option<u64> {
    let number = value.as_f64()?;
    (number.fract() == 0.0 && (0.0..9_007_199_254_740_992.0).contains(&number)).then_some(number as u64)
}

fn text(value: Option<&Value>) -> Option<String> {
    value?.as_str().map(str::to_string)
}

fn texts(value: Option<&Value>) -> Option<Vec<String>> {
    value?.as_array()?.iter().map(|entry| text(Some(entry))).collect()
}

fn objects(value: Option<&Value>) -> Option<Vec<Object>> {
    value?.as_array()?.iter().map(|entry| entry.as_object().cloned()).collect()
}

// Key sets

/// The public keys of the application.
#[derive(Debug)]
pub(crate) struct Keys {
    /// The signed set, an entry of `signed`; none if the client is unpinned, which believes the keys as they come.
    pub(crate) jws: Option<String>,
    pub(crate) keys: Vec<Object>,
    /// When a root key signed the set; for an unpinned client when it was received.
    pub(crate) issued_at: i64,
    /// `i64::MAX` for an unpinned client.
    pub(crate) expires_at: i64,
}

/// The service signs key sets for 30 days. A set that lasts longer belongs to an offline file, and is accepted only there.
const MAX_LIFE_MS: i64 = 31 * DAY_MS;

impl Keys {
    fn is_from_service(&self) -> bool {
        self.expires_at - self.issued_at <= MAX_LIFE_MS
    }

    pub(crate) fn unsigned(keys: Vec<Object>, received_at: i64) -> Self {
        Self { jws: None, keys, issued_at: received_at, expires_at: i64::MAX }
    }
}

/// Reads an answer of `jwks.json` at `time`: the first set that may replace the current one, else why there is none.
pub(crate) fn read_keys(
    body: &Value,
    identity: &Identity,
    current: Option<&Keys>,
    time: i64,
) -> Result<Keys, Reason> {
    let keys = objects(body.get("keys")).ok_or(Reason::UNEXPECTED_ANSWER)?;
    if matches!(identity.trust, Trust::Unpinned) {
        return Ok(Keys::unsigned(keys, time));
    }
    let mut refusal = Reason::UNTRUSTED_KEYS;
    for jws in body.get("signed").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str) {
        let Some(keys) = read_stored_keys(jws, identity) else { continue };
        refusal = if keys.expires_at <= time {
            Reason::KEYS_EXPIRED
        } else if current.is_some_and(|current| keys.issued_at < current.issued_at) {
            Reason::KEYS_OUTDATED
        } else {
            return Ok(keys);
        };
    }
    Err(refusal)
}

/// The signed keys in the store, verified like those of the service, but for their age.
pub(crate) fn read_stored_keys(jws: &str, identity: &Identity) -> Option<Keys> {
    read_signed_keys(jws, identity).filter(Keys::is_from_service)
}

fn read_signed_keys(jws: &str, identity: &Identity) -> Option<Keys> {
    let Trust::Pinned(roots) = &identity.trust else { return None };
    let payload = verify(jws, roots).ok()?;
    Some(Keys {
        jws: Some(jws.to_string()),
        keys: objects(payload.get("keys"))
            .filter(|_| payload.get("app_id") == Some(&json!(identity.app_id)))?,
        issued_at: unix_time(payload.get("iat"))?,
        expires_at: unix_time(payload.get("exp"))?,
    })
}

/// Whether the key that signed a file was withdrawn: a later set of the service lacks it.
fn is_withdrawn(jws: &str, file_keys: &Keys, current: Option<&Keys>) -> bool {
    let kid = key_id_of(jws);
    current.is_some_and(|current| {
        current.issued_at > file_keys.issued_at
            && !current.keys.iter().any(|key| key.get("kid") == kid.as_ref())
    })
}

// Tokens

#[derive(Debug)]
pub(crate) struct TokenClaims {
    pub(crate) licence_id: String,
    pub(crate) activation_id: String,
    pub(crate) plan_id: Option<String>,
    pub(crate) licence_status: Option<String>,
    pub(crate) issued_at: i64,
    pub(crate) expires_at: i64,
    /// Half of the life; of an offline token the end, as only another file renews it.
    pub(crate) refresh_after: i64,
    pub(crate) check_interval_ms: i64,
    pub(crate) seats: Option<i64>,
    /// The product may be updated to releases until this time; none: to all.
    pub(crate) updates_until: Option<i64>,
    entitlements: HashMap<String, String>,
    /// Whether the token came in a file, for a machine without a network.
    pub(crate) offline: bool,
    /// The fingerprint that it is valid for; none if only the service knows it.
    fingerprint: Option<String>,
    /// The nonce of the request that it answers; none if the request had none.
    pub(crate) nonce: Option<String>,
}

impl TokenClaims {
    pub(crate) fn feature(&self, key: &str) -> bool {
        self.entitlements.get(key).is_some_and(|value| value == "true")
    }

    /// An integer of at most 15 digits, without leading zeros; else 0.
    pub(crate) fn limit(&self, key: &str) -> i64 {
        let value = self.entitlements.get(key).map_or("", String::as_str);
        let digits = value.strip_prefix('-').unwrap_or(value);
        let is_integer = digits.len() <= 15 && digits.bytes().all(|byte| byte.is_ascii_digit());
        if is_integer && !digits.starts_with('0') {
            value.parse().unwrap_or(0)
        } else {
            0
        }
    }

    /// Whether the token's life is over at `time`.
    pub(crate) fn has_ended(&self, time: i64) -> bool {
        time >= self.expires_at
    }
}

/// Reads the token of the store, with the keys of the service or of the file that it came in.
pub(crate) fn read_stored_token(
    jws: &str,
    signed_file_keys: Option<&str>,
    fingerprint: &str,
    keys: Option<&Keys>,
    identity: &Identity,
    time: i64,
) -> Option<(TokenClaims, Option<Arc<Keys>>)> {
    let file_keys = match signed_file_keys {
        None => None,
        Some(signed) => Some(read_signed_keys(signed, identity)?),
    };
    if file_keys.as_ref().is_some_and(|file_keys| is_withdrawn(jws, file_keys, keys)) {
        return None;
    }
    let claims = read_token(jws, file_keys.as_ref().or(keys), &identity.app_id, fingerprint, time).ok()?;
    (file_keys.is_none() || claims.offline).then_some((claims, file_keys.map(Arc::new)))
}

/// The claims of a token for this machine. Keys that have ended verify only tokens that have ended, so that these can be
/// shown and renewed.
pub(crate) fn read_token(
    jws: &str,
    keys: Option<&Keys>,
    app_id: &str,
    fingerprint: &str,
    time: i64,
) -> Result<TokenClaims, Unreadable> {
    let payload = verify(jws, keys.map_or(&[], |keys| &keys.keys))?;
    let claims = claims_in(&payload, app_id).ok_or(Unreadable::Forged)?;
    if claims.fingerprint.as_ref().is_some_and(|machine| machine != fingerprint) {
        return Err(Unreadable::Forged);
    }
    let is_in_time = keys.is_none_or(|keys| keys.expires_at > time || claims.has_ended(time));
    is_in_time.then_some(claims).ok_or(Unreadable::UnknownKey)
}

const MAX_CHECK_INTERVAL_MS: i64 = DAY_MS;

/// The claims in an authentic payload; none if it is not a token of this application.
fn claims_in(payload: &Object, app_id: &str) -> Option<TokenClaims> {
    let claim = |name: &str| payload.get(name);
    let is_audience = |value: &Value| value.as_str() == Some(app_id);
    claim("aud")
        .filter(|aud| is_audience(aud) || aud.as_array().is_some_and(|all| all.iter().any(is_audience)))?;
    let (issued_at, expires_at) = (unix_time(claim("iat"))?, unix_time(claim("exp"))?);
    let entitlements = claim("entitlements")?.as_object()?.iter();
    let offline = claim("offline") == Some(&Value::Bool(true));
    Some(TokenClaims {
        licence_id: text(claim("sub"))?,
        activation_id: text(claim("act"))?,
        plan_id: text(claim("plan_id")),
        licence_status: text(claim("status")),
        issued_at,
        expires_at,
        refresh_after: if offline { expires_at } else { issued_at + (expires_at - issued_at) / 2 },
        check_interval_ms: unix_time(claim("chk")).filter(|ms| *ms > 0)?.min(MAX_CHECK_INTERVAL_MS),
        seats: claim("seats").and_then(Value::as_f64).map(|seats| seats as i64),
        updates_until: unix_time(claim("upd")),
        entitlements: entitlements
            .map(|(key, value)| Some((key.clone(), text(Some(value))?)))
            .collect::<Option<_>>()?,
        offline,
        fingerprint: text(claim("fingerprint")),
        nonce: text(claim("nonce")),
    })
}

// Revocation lists

/// The content of a signed revocation list.
#[derive(Clone, Debug)]
pub(crate) struct RevocationList {
    pub(crate) jws: Arc<str>,
    pub(crate) version: u64,
    /// The version after which it lists additions; none for the whole list.
    pub(crate) since: Option<u64>,
    pub(crate) revoked: Vec<String>,
    /// The list goes on after `version`: the rest is requested with it.
    pub(crate) more: bool,
    pub(crate) issued_at: i64,
    pub(crate) expires_at: i64,
}

impl RevocationList {
    pub(crate) fn names(&self, licence_id: &str) -> bool {
        self.revoked.iter().any(|id| id == licence_id)
    }
}

pub(crate) fn read_list(jws: &str, keys: Option<&Keys>, app_id: &str) -> Result<RevocationList, Unreadable> {
    let payload = verify(jws, keys.map_or(&[], |keys| &keys.keys))?;
    list_in(&payload, jws, app_id).ok_or(Unreadable::Forged)
}

fn list_in(payload: &Object, jws: &str, app_id: &str) -> Option<RevocationList> {
    payload.get("app_id").filter(|app| app.as_str() == Some(app_id))?;
    let since = match payload.get("since") {
        None | Some(Value::Null) => 0,
        Some(since) => count(since)?,
    };
    Some(RevocationList {
        jws: jws.into(),
        version: count(payload.get("version")?)?,
        // A list since version 0 is complete.
        since: (since > 0).then_some(since),
        revoked: texts(payload.get("revoked"))?,
        more: payload.get("more").map_or(Some(false), Value::as_bool)?,
        issued_at: unix_time(payload.get("iat"))?,
        expires_at: unix_time(payload.get("exp"))?,
    })
}

// Offline files

/// The token of an offline file, with the keys of the file.
pub(crate) struct FileToken {
    pub(crate) jws: String,
    pub(crate) claims: TokenClaims,
    pub(crate) keys: Arc<Keys>,
}

/// Reads an offline file: its token, if it is for this installation; else why it is refused.
pub(crate) fn read_file(text_of_file: &str, identity: &Identity, held: &Held) -> Result<FileToken, Reason> {
    let Identity { app_id, fingerprint, .. } = identity;
    if matches!(identity.trust, Trust::Unpinned) {
        return Err(Reason::ROOT_KEY_REQUIRED);
    }
    let texts = texts_in_file(text_of_file).filter(|texts| texts.len() > 1).ok_or(Reason::FILE_MALFORMED)?;
    let (jws, signed) = (texts[0].clone(), &texts[1..]);
    let claimed = unverified(&jws).unwrap_or_default();
    // This check only gives a better reason: a file of another application would not verify either.
    if claimed.get("aud").and_then(Value::as_str).is_some_and(|aud| aud != app_id) {
        return Err(Reason::FILE_OF_ANOTHER_APPLICATION);
    }
    let keys = signed.iter().find_map(|jws| read_signed_keys(jws, identity)).ok_or(Reason::UNTRUSTED_KEYS)?;
    if is_withdrawn(&jws, &keys, held.keys.as_deref()) {
        return Err(Reason::KEYS_OUTDATED);
    }
    let time = time_for(held, &jws, held.licence.nonce.as_deref());
    // The token must be authentic before its fingerprint and its end are compared, for a reason that is true.
    let machine = text(claimed.get("fingerprint")).unwrap_or_else(|| fingerprint.clone());
    let claims =
        read_token(&jws, Some(&keys), app_id, &machine, i64::MIN).map_err(|_| Reason::UNTRUSTED_SIGNATURE)?;
    let replaces = |current: &TokenClaims| {
        current.offline && !current.has_ended(time) && current.activation_id == claims.activation_id
    };
    if !claims.offline {
        Err(Reason::FILE_MALFORMED)
    } else if claims.fingerprint.as_ref() != Some(fingerprint) {
        Err(Reason::FILE_OF_ANOTHER_MACHINE)
    } else if claims.expires_at.min(keys.expires_at) <= time {
        Err(Reason::FILE_EXPIRED)
    } else if held.claims().is_some_and(|held| replaces(held) && held.issued_at > claims.issued_at) {
        Err(Reason::FILE_OUTDATED)
    } else {
        Ok(FileToken { jws, claims, keys: Arc::new(keys) })
    }
}

/// The time at which an answer to a request with `nonce` is checked. A token with this nonce was issued after the request: if
/// the trusted time is ahead of the clock, the clock counts. Nothing is verified here.
pub(crate) fn time_for(held: &Held, jws: &str, nonce: Option<&str>) -> i64 {
    let claims = unverified(jws).unwrap_or_default();
    let is_answer = nonce.is_some() && claims.get("nonce").and_then(Value::as_str) == nonce;
    match unix_time(claims.get("iat")) {
        Some(issued_at) if is_answer => held.time.local.max(issued_at),
        _ => held.time.time,
    }
}

/// The signed texts of an offline licence file, the first one in the text: the token and the key sets. Word processors and mail
/// programs replace hyphens by other dashes, and add blanks, line breaks and marks of quotation.
fn texts_in_file(text: &str) -> Option<Vec<String>> {
    let plain: String = text
        .chars()
        .map(|c| if matches!(c, '\u{2010}'..='\u{2015}' | '\u{2212}') { '-' } else { c })
        .filter(|c| c.is_ascii() && (*c == '.' || is_base64url(*c as u8)))
        .collect();
    let (_, rest) = split_at_line(&plain, "-BEGINLICENCE")?;
    let (content, _) = split_at_line(rest, "-ENDLICENCE")?;
    let mut rest = content.trim_start_matches('-');
    let mut texts = Vec::new();
    while !rest.trim_start_matches('-').is_empty() {
        // A signature of Ed25519 has 64 bytes, so that its end is known without the end of a line.
        let (second_dot, _) = rest.match_indices('.').nth(1)?;
        let (jws, tail) = rest.split_at_checked(second_dot + 1 + 86)?;
        texts.push((jws.split('.').filter(|part| !part.is_empty()).count() == 3).then(|| jws.to_string())?);
        rest = tail;
    }
    Some(texts)
}

/// The texts before and after a line, in any case of its letters.
fn split_at_line<'a>(text: &'a str, line: &str) -> Option<(&'a str, &'a str)> {
    let at = text.to_ascii_uppercase().find(line)?;
    Some((&text[..at], &text[at + line.len()..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_an_integer_of_at_most_15_digits() {
        let values = [
            ("a", "25"),
            ("b", "-5"),
            ("c", "0"),
            ("d", "007"),
            ("e", "1e3"),
            ("f", "999999999999999"),
            ("g", "1000000000000000"),
            ("h", "-0"),
            ("i", ""),
            ("j", "-"),
            ("k", "+1"),
            ("l", "true"),
        ];
        let payload = json!({"aud": "app", "sub": "lic", "act": "act", "iat": 1, "exp": 2, "chk": 1,
            "entitlements": values.into_iter().collect::<HashMap<_, _>>()});
        let claims = claims_in(payload.as_object().unwrap(), "app").unwrap();
        let limits = values.map(|(key, _)| claims.limit(key));
        assert_eq!(limits, [25, -5, 0, 0, 0, 999_999_999_999_999, 0, 0, 0, 0, 0, 0]);
        assert!(claims.feature("l") && !claims.feature("a") && !claims.feature("z"));
    }

    #[test]
    fn a_file_is_found_in_any_text_and_nothing_in_text_without_one() {
        let jws = format!("e30.e30.{}", "a".repeat(86));
        let file = format!("Hello\n> – BEGIN licence —\n> {jws}=\n>{jws}\n\n> --END\nLICENCE--");
        assert_eq!(texts_in_file(&file), Some(vec![jws.clone(), jws.clone()]));
        for text in [
            "",
            "BEGIN LICENCE",
            "END LICENCE",
            "--BEGIN LICENCE--",
            "--BEGIN LICENCE--nonsense--END LICENCE--",
            "--BEGIN LICENCE--e30.e30.short--END LICENCE--",
        ] {
            assert_eq!(texts_in_file(text), None, "{text}");
        }
        for end in 0..file.len() {
            if let Some(text) = file.get(..end) {
                texts_in_file(text);
            }
        }
    }
}
