use crate::signature::Object;
use base64::engine::general_purpose::{GeneralPurpose, PAD, STANDARD};
use base64::{alphabet, Engine};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::ffi::CStr;
use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

/// Why a delivery was refused: answer it with 400, and do not act on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WebhookError {
    /// No secret was given, or an empty one.
    NoSecret,
    /// The header is missing, or has no time or no signature of the right form.
    MalformedHeader,
    /// Signed with another secret, or the body was changed (also by parsing and serialising it).
    SignatureMismatch,
    /// Signed too long ago, or in the future: perhaps a replay.
    TimestampOutsideTolerance,
    /// The signature is valid, but the body is not an event.
    MalformedBody,
}

impl WebhookError {
    /// The reason, as all SDKs spell it.
    pub fn reason(self) -> &'static str {
        self.reason_for_c().to_str().unwrap_or_default()
    }

    pub(crate) fn reason_for_c(self) -> &'static CStr {
        match self {
            Self::NoSecret => c"no_secret",
            Self::MalformedHeader => c"malformed_header",
            Self::SignatureMismatch => c"signature_mismatch",
            Self::TimestampOutsideTolerance => c"timestamp_outside_tolerance",
            Self::MalformedBody => c"malformed_body",
        }
    }
}

impl fmt::Display for WebhookError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoSecret => "no signing secret was given",
            Self::MalformedHeader => "the signature header is missing or not of the right form",
            Self::SignatureMismatch => "no signature matches the raw body and a secret",
            Self::TimestampOutsideTolerance => "signed too long ago, or in the future",
            Self::MalformedBody => "the body is not an event",
        })
    }
}

impl std::error::Error for WebhookError {}

/// An event. New types are added over time: ignore types that you do not know.
#[derive(Clone, Debug, PartialEq)]
pub struct WebhookEvent {
    /// The id, `evt_…`: events can arrive twice.
    pub id: String,
    /// The type, for example `licence.revoked`.
    pub event_type: String,
    /// The whole event: `data`, `sequence`, `previous` and so on.
    pub content: Object,
}

/// The signature of a delivery, as a web framework gives it.
#[derive(Clone, Copy, Debug)]
pub enum SignatureHeaders<'a> {
    /// The value of `Webhook-Signature` of an endpoint with the default signature: `t=…,v1=…`.
    Default(&'a str),
    /// All headers, names in any case: of an endpoint with either signature.
    All(&'a [(&'a str, &'a str)]),
}

impl<'a> From<&'a str> for SignatureHeaders<'a> {
    fn from(header: &'a str) -> Self {
        Self::Default(header)
    }
}

impl<'a> From<&'a [(&'a str, &'a str)]> for SignatureHeaders<'a> {
    fn from(headers: &'a [(&'a str, &'a str)]) -> Self {
        Self::All(headers)
    }
}

/// How a delivery is verified.
#[derive(Clone, Copy, Debug)]
pub struct WebhookOptions {
    /// Largest difference between the time of the signature and the current time, in seconds, in either direction.
    pub tolerance_seconds: f64,
    /// The current time in milliseconds since 1970 UTC; none: the clock of the system.
    pub now: Option<i64>,
}

impl Default for WebhookOptions {
    /// 300 seconds, and the clock of the system.
    fn default() -> Self {
        Self { tolerance_seconds: 300.0, now: None }
    }
}

/// Verifies a webhook delivery and returns its event. Signatures are compared in constant time.
///
/// `raw_body` is the body exactly as received; `secrets` is the endpoint's secret (`whsec_…`), or several while one is being
/// rotated.
///
/// # Errors
///
/// If the delivery must not be trusted.
///
/// ```
/// use licensing::{verify_webhook, WebhookOptions};
/// # let now = Some(1_795_255_200_000);
/// # let raw_body = br#"{"id":"evt_1","type":"webhook.test","data":{"object":{"ping":true}}}"#;
/// # let header = "t=1795255200,v1=1b152e1230afa0f32baa8770be2043264b17a41c8ffff8f2d36b2fb8b532da7b";
/// # let options = WebhookOptions { now, ..WebhookOptions::default() };
/// let event = verify_webhook(raw_body, header, &["whsec_test"], options)?;
/// assert_eq!(event.event_type, "webhook.test");
/// # Ok::<(), licensing::WebhookError>(())
/// ```
pub fn verify_webhook<'a>(
    raw_body: &[u8],
    headers: impl Into<SignatureHeaders<'a>>,
    secrets: &[&str],
    options: WebhookOptions,
) -> Result<WebhookEvent, WebhookError> {
    if secrets.is_empty() || secrets.contains(&"") {
        return Err(WebhookError::NoSecret);
    }
    let Signed { time, prefix, signatures, is_standard } =
        read_headers(headers.into()).ok_or(WebhookError::MalformedHeader)?;
    let signed = [prefix.as_bytes(), raw_body].concat();
    let mut is_signed = false;
    // Every pair is tried, so that the duration does not reveal which pair matches.
    for secret in secrets {
        let key = if is_standard { standard_key(secret) } else { Some(secret.as_bytes().to_vec()) };
        let expected = key.map(|key| hmac_sha256(&key, &signed));
        for signature in &signatures {
            is_signed |= expected.is_some_and(|expected| is_equal(&expected, signature));
        }
    }
    if !is_signed {
        return Err(WebhookError::SignatureMismatch);
    }
    let system = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as f64;
    let now = options.now.map_or_else(system, |ms| ms as f64) / 1000.0;
    let is_in_time = (now - time).abs() <= options.tolerance_seconds;
    if !is_in_time {
        return Err(WebhookError::TimestampOutsideTolerance);
    }
    event_in(raw_body).ok_or(WebhookError::MalformedBody)
}

/// The content of the headers.
struct Signed {
    /// When it was signed, in seconds.
    time: f64,
    /// The signed text before the body.
    prefix: String,
    signatures: Vec<[u8; 32]>,
    /// Signed as Standard Webhooks says.
    is_standard: bool,
}

fn read_headers(headers: SignatureHeaders<'_>) -> Option<Signed> {
    let value_of = |name: &str| {
        let SignatureHeaders::All(all) = headers else { return String::new() };
        let named = all.iter().filter(|(given, _)| given.eq_ignore_ascii_case(name));
        named.map(|(_, value)| *value).collect::<Vec<_>>().join(",")
    };
    let header = match headers {
        SignatureHeaders::Default(header) => header.to_string(),
        SignatureHeaders::All(_) => value_of("webhook-signature"),
    };
    if header.split_whitespace().any(|part| part.starts_with("v1,")) {
        read_standard(&value_of("webhook-id"), &value_of("webhook-timestamp"), &header)
    } else {
        read_default(&header)
    }
}

/// `t=…,v1=…`, with one or more `v1`.
fn read_default(header: &str) -> Option<Signed> {
    let values =
        |name: &'static str| header.split(',').filter_map(move |part| part.trim().strip_prefix(name));
    let mut times = values("t=");
    let timestamp = times.next().filter(|_| times.next().is_none())?;
    let prefix = format!("{timestamp}.");
    let signatures: Vec<_> = values("v1=").filter_map(from_hex).collect();
    let time = seconds(timestamp)?;
    (!signatures.is_empty()).then_some(Signed { time, prefix, signatures, is_standard: false })
}

/// `v1,<base64>`, one or more, separated by spaces.
fn read_standard(id: &str, timestamp: &str, header: &str) -> Option<Signed> {
    let encoded = header.split_whitespace().filter_map(|part| part.strip_prefix("v1,"));
    let signatures: Vec<_> = encoded.filter_map(|text| STANDARD.decode(text).ok()?.try_into().ok()).collect();
    let (time, prefix) = (seconds(timestamp)?, format!("{id}.{timestamp}."));
    (!signatures.is_empty() && !id.is_empty()).then_some(Signed {
        time,
        prefix,
        signatures,
        is_standard: true,
    })
}

fn seconds(text: &str) -> Option<f64> {
    let is_number = (1..=15).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_number)
}

/// 64 hexadecimal digits in lower case.
fn from_hex(text: &str) -> Option<[u8; 32]> {
    let is_hex = text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let byte = |at: usize| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).unwrap_or_default();
    is_hex.then(|| std::array::from_fn(byte))
}

/// The key of Standard Webhooks: the bytes that the secret has in base64 after `whsec_`. None for a secret of the other kind.
fn standard_key(secret: &str) -> Option<Vec<u8>> {
    let text = secret.strip_prefix("whsec_").unwrap_or(secret);
    let lenient = GeneralPurpose::new(&alphabet::STANDARD, PAD.with_decode_allow_trailing_bits(true));
    lenient.decode(text).ok().filter(|key| !key.is_empty())
}

/// HMAC with SHA-256 (RFC 2104).
fn hmac_sha256(key: &[u8], text: &[u8]) -> [u8; 32] {
    let mut block = [0; 64];
    match key.len() {
        ..=64 => block[..key.len()].copy_from_slice(key),
        _ => block[..32].copy_from_slice(&Sha256::digest(key)),
    }
    let inner = Sha256::new().chain_update(block.map(|byte| byte ^ 0x36)).chain_update(text).finalize();
    Sha256::new().chain_update(block.map(|byte| byte ^ 0x5C)).chain_update(inner).finalize().into()
}

fn is_equal(one: &[u8; 32], other: &[u8; 32]) -> bool {
    let difference = one.iter().zip(other).fold(0, |difference, (a, b)| difference | (a ^ b));
    std::hint::black_box(difference) == 0
}

fn event_in(body: &[u8]) -> Option<WebhookEvent> {
    let content: Object = serde_json::from_slice(body).ok()?;
    let text = |name: &str| content.get(name).and_then(Value::as_str).map(str::to_string);
    content.get("data").filter(|data| data.is_object())?;
    Some(WebhookEvent { id: text("id")?, event_type: text("type")?, content })
}
