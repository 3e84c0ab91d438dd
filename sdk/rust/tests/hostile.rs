//! Servers that are not the licensing service, over real connections.

mod support;

use licensing::{Client, Options, Status};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use support::{ms, options_of, shared};

/// Answers each connection, and returns what an activation comes to: its reason, and how long it took.
fn activated(timeout: Duration, answer: impl Fn(TcpStream) + Send + Sync + 'static) -> (String, Duration) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let base_url = format!("http://{}//", listener.local_addr().unwrap());
    let answer = Arc::new(answer);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, answer) = (stream.unwrap(), answer.clone());
            thread::spawn(move || {
                // The request: its head, and the whole body, so that closing does not reset the connection.
                let mut request = Vec::new();
                let mut byte = [0];
                while !request.ends_with(b"}") && stream.read(&mut byte).is_ok_and(|count| count > 0) {
                    request.push(byte[0]);
                }
                assert!(request.starts_with(b"POST /v1/activations HTTP/1.1\r\n"));
                answer(stream);
            });
        }
    });
    let clock = ms("2026-11-21T10:00:00.000Z");
    let licence = Client::new(Options {
        base_url,
        timeout,
        clock: Some(Arc::new(move || clock)),
        ..options_of(&shared()["client"])
    });
    let licence = licence.unwrap();
    let begun = Instant::now();
    let state = licence.activate();
    assert!(!state.usable && state.status != Status::Starting);
    (state.reason.unwrap().to_string(), begun.elapsed())
}

fn head(status: &str) -> String {
    format!("HTTP/1.1 {status}\r\ncontent-type: application/json; charset=utf-16\r\nconnection: close\r\n")
}

const PATIENT: Duration = Duration::from_secs(15);
const SHORT: Duration = Duration::from_millis(500);

#[test]
fn an_answer_that_never_ends_is_read_to_its_limit() {
    let (reason, _) = activated(PATIENT, |mut stream| {
        let _ = stream.write_all((head("200 OK") + "\r\n").as_bytes());
        while stream.write_all(&[b'x'; 65_536]).is_ok() {}
    });
    assert_eq!(reason, "unexpected_answer");
}

#[test]
fn an_answer_of_3_mib_is_not_accepted() {
    let (reason, _) = activated(PATIENT, |mut stream| {
        let body = format!("{{\"token\":\"{}\"}}", "x".repeat(3 * 1024 * 1024));
        let _ = stream
            .write_all(format!("{}content-length: {}\r\n\r\n{body}", head("200 OK"), body.len()).as_bytes());
    });
    assert_eq!(reason, "unexpected_answer");
}

#[test]
fn a_redirect_is_not_followed() {
    let (reason, _) = activated(PATIENT, |mut stream| {
        let location = "location: /v1/elsewhere\r\ncontent-length: 0\r\n\r\n";
        let _ = stream.write_all((head("307 Temporary Redirect") + location).as_bytes());
    });
    assert_eq!(reason, "unexpected_answer");
}

#[test]
fn an_answer_is_read_as_utf_8_whatever_character_set_it_names() {
    let (reason, _) = activated(PATIENT, |mut stream| {
        let body = r#"{"code":"licence_refused","reason":"geschlossen – Ü"}"#;
        let _ = stream.write_all(format!("{}\r\n{body}", head("403 Forbidden")).as_bytes());
    });
    assert_eq!(reason, "geschlossen – Ü");
}

#[test]
fn a_call_ends_in_time_if_the_server_sends_nothing_or_byte_after_byte() {
    let nothing = |stream: TcpStream| {
        thread::sleep(PATIENT);
        drop(stream);
    };
    let slowly = |mut stream: TcpStream| {
        let answer = head("200 OK") + &"x-more: 1\r\n".repeat(1000);
        answer.bytes().all(|byte| {
            thread::sleep(Duration::from_millis(20));
            stream.write_all(&[byte]).is_ok()
        });
    };
    let blanks = |mut stream: TcpStream| {
        let _ = stream.write_all((head("200 OK") + "\r\n").as_bytes());
        while stream.write_all(b" ").is_ok() {
            thread::sleep(Duration::from_millis(20));
        }
    };
    for (reason, took) in [activated(SHORT, nothing), activated(SHORT, slowly), activated(SHORT, blanks)] {
        assert_eq!(reason, "timeout");
        assert!(took < SHORT * 5, "{took:?}");
    }
}

#[test]
fn a_connection_that_is_cut_or_no_http_is_unreachable() {
    assert_eq!(activated(PATIENT, drop).0, "unreachable");
    let half = |mut stream: TcpStream| {
        let _ = stream.write_all((head("200 OK") + "content-length: 100\r\n\r\n{\"token\":").as_bytes());
    };
    assert_eq!(activated(PATIENT, half).0, "unreachable");
    let other = |mut stream: TcpStream| {
        let _ = stream.write_all(b"220 mail.example.com ESMTP\r\n");
    };
    assert_eq!(activated(PATIENT, other).0, "unreachable");
}

#[test]
fn an_address_that_is_none_is_unreachable() {
    for base_url in [
        "",
        "licensing.example.com",
        "ftp://licensing.example.com",
        "http://",
        "http://127.0.0.1:1",
        "http://a b/",
    ] {
        let options = Options { base_url: base_url.into(), ..options_of(&shared()["client"]) };
        let state = Client::new(options).unwrap().activate();
        assert_eq!(state.reason.unwrap().as_str(), "unreachable", "{base_url}");
    }
}
