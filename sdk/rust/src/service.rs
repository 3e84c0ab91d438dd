//! One HTTP request, and what its answer is.

use crate::attempts::Trouble;
use crate::{timestamps, Reason};
use serde_json::Value;
use std::io::{self, Read};
use std::time::Duration;

/// An HTTP request of the client.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Request {
    /// `GET`, `POST` or `DELETE`.
    pub method: &'static str,
    /// The whole address.
    pub url: String,
    /// Names are in lower case.
    pub headers: Vec<(&'static str, String)>,
    /// JSON; empty if the request has no body.
    pub body: String,
    /// How long the client waits for the whole answer.
    pub timeout: Duration,
}

/// An HTTP answer.
#[derive(Clone, Debug, Default)]
pub struct Response {
    /// The status, also that of a redirect.
    pub status: u16,
    /// Names in any case.
    pub headers: Vec<(String, String)>,
    /// The body. A transport may end it after 2 MiB and one byte: a longer answer is not read.
    pub body: Vec<u8>,
}

/// Sends requests. The client does not wait longer than the timeout of the request, whatever the transport does. A function is a
/// transport: with another HTTP library, or in tests.
pub trait Transport: Send + Sync {
    /// Sends a request, without following redirects.
    ///
    /// # Errors
    ///
    /// If there was no answer, or not a whole one.
    fn send(&self, request: &Request) -> io::Result<Response>;
}

impl<F: Fn(&Request) -> io::Result<Response> + Send + Sync> Transport for F {
    fn send(&self, request: &Request) -> io::Result<Response> {
        self(request)
    }
}

/// The default transport. It uses the proxy of the environment (`HTTPS_PROXY`, `NO_PROXY`), and keeps no connection open.
pub(crate) struct Ureq(ureq::Agent);

impl Ureq {
    pub(crate) fn new() -> Self {
        // The service never redirects. A redirect comes from the login page of a network, for example.
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .max_idle_connections(0)
            .user_agent(concat!("licensing-rust/", env!("CARGO_PKG_VERSION")));
        Self(config.build().new_agent())
    }
}

impl Transport for Ureq {
    fn send(&self, request: &Request) -> io::Result<Response> {
        let mut builder = ureq::http::Request::builder().method(request.method).uri(&request.url);
        for (name, value) in &request.headers {
            builder = builder.header(*name, value);
        }
        let limit = Some(request.timeout);
        let answer = if request.body.is_empty() && request.method != "POST" {
            let prepared = builder.body(()).map_err(io::Error::other)?;
            self.0.run(self.0.configure_request(prepared).timeout_global(limit).build())
        } else {
            let prepared = builder.body(request.body.as_str()).map_err(io::Error::other)?;
            self.0.run(self.0.configure_request(prepared).timeout_global(limit).build())
        };
        let answer = answer.map_err(ureq::Error::into_io)?;
        let (head, body) = answer.into_parts();
        let text = |value: &ureq::http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        let headers = head.headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect();
        let mut bytes = Vec::new();
        body.into_reader().take(MAX_ANSWER_BYTES as u64 + 1).read_to_end(&mut bytes)?;
        Ok(Response { status: head.status.as_u16(), headers, body: bytes })
    }
}

/// A whole revocation list has about 1.3 MB. A longer answer is of another server, and would fill the memory.
const MAX_ANSWER_BYTES: usize = 2 * 1024 * 1024;

/// A request below the address of the service.
#[derive(Default)]
pub(crate) struct Call<'a> {
    pub(crate) method: &'static str,
    /// Begins with `/v1`.
    pub(crate) path: String,
    pub(crate) body: Option<Value>,
    /// The token that authorises the call.
    pub(crate) token: Option<&'a str>,
    pub(crate) if_none_match: Option<&'a str>,
}

impl Call<'_> {
    pub(crate) fn request(&self, base_url: &str, timeout: Duration) -> Request {
        let mut headers = vec![("accept", "application/json".to_string())];
        headers.extend(self.body.as_ref().map(|_| ("content-type", "application/json".to_string())));
        headers.extend(self.token.map(|token| ("authorization", format!("Bearer {token}"))));
        headers.extend(self.if_none_match.map(|etag| ("if-none-match", etag.to_string())));
        Request {
            method: self.method,
            url: format!("{}{}", base_url.trim_end_matches('/'), self.path),
            headers,
            body: self.body.as_ref().map(Value::to_string).unwrap_or_default(),
            timeout,
        }
    }
}

/// The outcome of a request.
#[derive(Clone)]
pub(crate) enum Answer {
    Success {
        status: u16,
        body: Value,
        etag: Option<String>,
    },
    /// The service refused the call, in its error format.
    Refusal {
        status: u16,
        code: String,
        reason: Option<String>,
        detail: String,
    },
    /// No answer, or not a valid one.
    Failure(Trouble),
}

/// The longest `Retry-After` that is followed, so that one absurd answer does not lock a product out.
const MAX_RETRY_AFTER_MS: i64 = 3_600_000;

/// What an answer is. `local` is the local clock.
pub(crate) fn read_answer(response: Response, local: i64) -> Answer {
    let Response { status, headers, body } = response;
    if body.len() > MAX_ANSWER_BYTES {
        return Answer::Failure(Trouble::new(Reason::UNEXPECTED_ANSWER, "the answer is too long"));
    }
    let header = |name: &str| {
        let found = headers.iter().find(|(given, _)| given.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    };
    let text = String::from_utf8_lossy(&body);
    let body: Value = serde_json::from_str(text.trim_start_matches('\u{FEFF}')).unwrap_or_default();
    let text_of = |name: &str| body.get(name).and_then(Value::as_str).map(str::to_string);
    let detail = text_of("detail").unwrap_or_else(|| format!("status {status}"));
    match status {
        429 | 500.. => {
            let code = if status == 429 { Reason::RATE_LIMITED } else { Reason::UNAVAILABLE };
            let wait = header("retry-after")
                .and_then(|value| timestamps::retry_after_ms(value, local, header("date")));
            let retry_after_ms = wait.map(|ms| ms.min(MAX_RETRY_AFTER_MS));
            Answer::Failure(Trouble { code, detail, retry_after_ms })
        }
        200..=299 | 304 if status == 204 || status == 304 || body.is_object() => {
            let etag = header("etag").map(str::to_string);
            Answer::Success { status, body, etag }
        }
        400.. => match text_of("code") {
            Some(code) => Answer::Refusal { status, code, reason: text_of("reason"), detail },
            None => Answer::Failure(Trouble::new(Reason::UNEXPECTED_ANSWER, detail)),
        },
        _ => Answer::Failure(Trouble::new(Reason::UNEXPECTED_ANSWER, detail)),
    }
}

/// An answer that could be read, but is not valid, or the trouble that it is.
pub(crate) fn trouble_of(answer: &Answer) -> Trouble {
    match answer {
        Answer::Failure(trouble) => trouble.clone(),
        Answer::Refusal { status, code, detail, .. } => {
            Trouble::new(Reason::UNEXPECTED_ANSWER, format!("status {status}, {code}: {detail}"))
        }
        Answer::Success { status, .. } => {
            Trouble::new(Reason::UNEXPECTED_ANSWER, format!("status {status}, an unexpected body"))
        }
    }
}
