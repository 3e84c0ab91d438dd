//! Deliveries with both kinds of signatures; `sdk/suite` has more.

use licensing::{verify_webhook, WebhookError, WebhookOptions};

const BODY: &[u8] = br#"{"id":"evt_1","type":"webhook.test","data":{"object":{"ping":true}}}"#;
// printf '%s' '1795255200.{"id":"evt_1",…}' | openssl dgst -sha256 -hmac whsec_test
const V1: &str = "1b152e1230afa0f32baa8770be2043264b17a41c8ffff8f2d36b2fb8b532da7b";
// The same with `evt_1.` before the time, the key 32 times the letter k, and base64.
const SECRET: &str = "whsec_a2tra2tra2tra2tra2tra2tra2tra2tra2tra2tra2s=";
const STANDARD: &str = "v1,/wgz/2dNWXSLqigl9zSJ69xulI1FR8oivm/VDo8LgmM=";
const NOW: i64 = 1_795_255_200_000;

fn at(now: i64) -> WebhookOptions {
    WebhookOptions { now: Some(now), ..WebhookOptions::default() }
}

#[test]
fn a_delivery_with_the_default_signature_is_verified() {
    let header = format!("t=1795255200,v1={V1}");
    let event = verify_webhook(BODY, header.as_str(), &["whsec_test"], at(NOW)).unwrap();
    assert_eq!((event.id.as_str(), event.event_type.as_str()), ("evt_1", "webhook.test"));
    let rotated = format!("v0=x, t=1795255200 , v1={},v1={V1}", V1.replace('1', "2"));
    let all = [("Content-Type", "application/json"), ("Webhook-Signature", rotated.as_str())];
    assert_eq!(verify_webhook(BODY, &all[..], &["whsec_other", "whsec_test"], at(NOW)), Ok(event));
}

#[test]
fn a_delivery_with_the_standard_signature_is_verified() {
    let two = format!("v1,{} {STANDARD}", "A".repeat(43) + "=");
    let headers =
        [("WEBHOOK-ID", "evt_1"), ("webhook-timestamp", "1795255200"), ("Webhook-Signature", two.as_str())];
    assert!(verify_webhook(BODY, &headers[..], &["whsec_test", SECRET], at(NOW)).is_ok());
    assert_eq!(
        verify_webhook(BODY, &headers[..], &["whsec_test"], at(NOW)),
        Err(WebhookError::SignatureMismatch)
    );
    assert_eq!(verify_webhook(BODY, &headers[1..], &[SECRET], at(NOW)), Err(WebhookError::MalformedHeader));
    assert_eq!(verify_webhook(BODY, STANDARD, &[SECRET], at(NOW)), Err(WebhookError::MalformedHeader));
}

#[test]
fn a_delivery_is_refused_with_the_first_reason_of_the_list() {
    let good = format!("t=1795255200,v1={V1}");
    for (body, header, secrets, now, reason) in [
        (BODY, "", &["whsec_test", ""][..], NOW, "no_secret"),
        (BODY, "", &[], NOW, "no_secret"),
        (BODY, "", &["whsec_test"], NOW, "malformed_header"),
        (BODY, &format!("v1={V1}"), &["whsec_test"], NOW, "malformed_header"),
        (BODY, &format!("t=1,t=2,v1={V1}"), &["whsec_test"], NOW, "malformed_header"),
        (BODY, &format!("t=1795255200,v1={}", V1.to_uppercase()), &["whsec_test"], NOW, "malformed_header"),
        (BODY, &format!("t=1795255200,v1={}", &V1[1..]), &["whsec_test"], NOW, "malformed_header"),
        (BODY, &good, &["whsec_other"], NOW, "signature_mismatch"),
        (&BODY[1..], &good, &["whsec_test"], NOW, "signature_mismatch"),
        (BODY, &format!("t=1795255201,v1={V1}"), &["whsec_test"], NOW, "signature_mismatch"),
        (BODY, &good, &["whsec_test"], NOW + 301_000, "timestamp_outside_tolerance"),
        (BODY, &good, &["whsec_test"], NOW - 301_000, "timestamp_outside_tolerance"),
    ] {
        let refused = verify_webhook(body, header, secrets, at(now)).unwrap_err();
        assert_eq!(refused.reason(), reason, "{header}");
    }
    assert!(verify_webhook(BODY, good.as_str(), &["whsec_test"], at(NOW + 300_000)).is_ok());
}
