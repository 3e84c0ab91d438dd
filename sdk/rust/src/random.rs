//! Random numbers and texts.

use crate::file_store::hex;
use std::time::{SystemTime, UNIX_EPOCH};

/// Random bytes of the operating system; if it has none, the time, which only makes two products' values differ.
fn bytes() -> [u8; 16] {
    let mut bytes = [0; 16];
    if getrandom::getrandom(&mut bytes).is_err() {
        bytes = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos().to_le_bytes();
    }
    bytes
}

/// 32 hexadecimal characters.
pub(crate) fn nonce() -> String {
    hex(&bytes())
}

/// A version 4 UUID (RFC 9562).
pub(crate) fn uuid() -> String {
    let mut bytes = bytes();
    bytes[6] = bytes[6] & 0x0F | 0x40;
    bytes[8] = bytes[8] & 0x3F | 0x80;
    let hex = hex(&bytes);
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

/// A number from 0 to 1.
pub(crate) fn fraction() -> f64 {
    f64::from(u16::from_le_bytes([bytes()[0], bytes()[1]])) / f64::from(u16::MAX)
}
