//! Compact JWS of the service. Only Ed25519 (RFC 8032) is accepted, whatever the header and the key claim.

use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use base64::Engine;
use ed25519_dalek::{Signature, VerifyingKey};
use serde_json::{Map, Value};

/// A JSON object.
pub(crate) type Object = Map<String, Value>;

/// Why a signed text cannot be used.
#[derive(Debug, PartialEq)]
pub(crate) enum Unreadable {
    /// Its key is not among those given, perhaps a newer one.
    UnknownKey,
    /// Its signature or content is wrong.
    Forged,
}

/// The payload of a JWS that one of these keys signed. `kid` and `x` (the key in base64url) of a key are used.
pub(crate) fn verify(jws: &str, keys: &[Object]) -> Result<Object, Unreadable> {
    let [header, payload, signature] = parts_of(jws).ok_or(Unreadable::Forged)?;
    let header = object_in(header).ok_or(Unreadable::Forged)?;
    let kid = header.get("kid").filter(|kid| kid.is_string()).ok_or(Unreadable::UnknownKey)?;
    let key = keys.iter().find(|key| key.get("kid") == Some(kid)).ok_or(Unreadable::UnknownKey)?;
    let is_plain = header.get("alg").and_then(Value::as_str) == Some("EdDSA") && !header.contains_key("crit");
    let signed = &jws[..jws.len() - signature.len() - 1];
    if !is_plain || !is_signed_by(key, signed.as_bytes(), signature).unwrap_or(false) {
        return Err(Unreadable::Forged);
    }
    object_in(payload).ok_or(Unreadable::Forged)
}

fn is_signed_by(key: &Object, signed: &[u8], signature: &str) -> Option<bool> {
    let key: [u8; 32] = URL_SAFE_NO_PAD.decode(key.get("x")?.as_str()?).ok()?.try_into().ok()?;
    let signature = Signature::from_slice(&URL_SAFE_NO_PAD.decode(signature).ok()?).ok()?;
    Some(VerifyingKey::from_bytes(&key).ok()?.verify_strict(signed, &signature).is_ok())
}

/// The id of the key that a JWS claims to be signed with.
pub(crate) fn key_id_of(jws: &str) -> Option<Value> {
    object_in(parts_of(jws)?[0])?.get("kid").cloned()
}

/// The claims of a token, not verified.
pub(crate) fn unverified(jws: &str) -> Option<Object> {
    object_in(parts_of(jws)?[1])
}

fn parts_of(jws: &str) -> Option<[&str; 3]> {
    jws.split('.').collect::<Vec<_>>().try_into().ok()
}

fn object_in(part: &str) -> Option<Object> {
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).ok()?).ok()
}
