//! The driver of the SDKs' common suite (`sdk/suite`): reads calls as JSON lines, and writes their outcomes.

#[path = "../tests/support/mod.rs"]
mod support;

use licensing::{
    machine_fingerprint, verify_webhook, Client, FileStore, Options, SignatureHeaders, WebhookOptions,
};
use serde_json::{json, Value};
use std::collections::HashMap;
use std::error::Error;
use std::io::{self, BufRead, Write};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use support::{call, ms, options_of, written};

/// A client, and the clock that it was given: `REAL` for the real one.
struct Driven {
    client: Client,
    clock: Arc<AtomicI64>,
}

const REAL: i64 = i64::MIN;

type Clients = Arc<Mutex<HashMap<String, Arc<Driven>>>>;

fn main() {
    let clients = Clients::default();
    let mut threads = Vec::new();
    for line in io::stdin().lock().lines() {
        let line = line.expect("the input is text");
        let order: Value = serde_json::from_str(&line).expect("the input is JSON");
        if order["call"] == "exit" {
            std::process::exit(order["argument"].as_i64().unwrap_or_default() as i32);
        }
        if order["call"] == "new" {
            answer(&order, &clients); // a later line may use the client
        } else {
            let clients = clients.clone();
            threads.push(thread::spawn(move || answer(&order, &clients)));
        }
    }
    for thread in threads {
        let _ = thread.join();
    }
}

fn answer(order: &Value, clients: &Clients) {
    let outcome = catch_unwind(AssertUnwindSafe(|| outcome_of(order, clients)));
    let outcome = outcome.unwrap_or_else(|_| Err("the call panicked".into()));
    let mut outcome = outcome.unwrap_or_else(|error| json!({ "threw": error.to_string() }));
    outcome["id"] = order["id"].clone();
    writeln!(io::stdout(), "{outcome}").expect("the output is read");
}

type Outcome = Result<Value, Box<dyn Error>>;

fn outcome_of(order: &Value, clients: &Clients) -> Outcome {
    let name = order["client"].as_str().unwrap_or("a").to_string();
    let argument = &order["argument"];
    let text = argument.as_str().unwrap_or_default();
    match order["call"].as_str().unwrap_or_default() {
        "new" => {
            let driven = driven(&order["options"])?;
            clients.lock().unwrap().insert(name, Arc::new(driven));
            return Ok(json!({ "ok": true }));
        }
        "machine_fingerprint" => {
            let file = argument["file"].as_str().map(Path::new);
            let app_id = argument["app_id"].as_str().unwrap_or_default();
            return Ok(json!({ "text": machine_fingerprint(app_id, file)? }));
        }
        "verify_webhook" => return verified(argument),
        _ => {}
    }
    let driven = clients.lock().unwrap().get(&name).cloned().ok_or("there is no such client")?;
    let client = &driven.client;
    let value = |value: Value| Ok(json!({ "value": value }));
    let state = match order["call"].as_str().unwrap_or_default() {
        "has_feature" => return value(json!(client.has_feature(text))),
        "limit" => return value(json!(client.limit(text))),
        "covers" => return value(json!(client.covers(text))),
        "create_offline_request" => return Ok(json!({ "text": client.create_offline_request() })),
        "clock" => {
            driven.clock.store(argument.as_str().map_or(REAL, ms), Ordering::SeqCst);
            return Ok(json!({ "ok": true }));
        }
        "close" => {
            client.close();
            return Ok(json!({ "ok": true }));
        }
        "state" => call(client, None, text),
        name => call(client, Some(name), text),
    };
    Ok(json!({ "state": written(&state) }))
}

fn driven(fields: &Value) -> Result<Driven, Box<dyn Error>> {
    let clock = Arc::new(AtomicI64::new(REAL));
    let now = clock.clone();
    let mut options = Options {
        clock: Some(Arc::new(move || match now.load(Ordering::SeqCst) {
            REAL => SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64),
            set => set,
        })),
        timeout: Duration::from_millis(fields["timeout_ms"].as_u64().unwrap_or(5000)),
        background: fields["background"].as_bool().unwrap_or(true),
        ..options_of(fields)
    };
    if let Some(path) = fields["store_file"].as_str() {
        options.store = Arc::new(FileStore::new(path));
    }
    Ok(Driven { client: Client::new(options)?, clock })
}

fn verified(argument: &Value) -> Outcome {
    use base64::{engine::general_purpose::STANDARD, Engine};
    let body = STANDARD.decode(argument["body_base64"].as_str().unwrap_or_default())?;
    let secrets: Vec<&str> = match &argument["secrets"] {
        Value::Array(secrets) => secrets.iter().filter_map(Value::as_str).collect(),
        secret => secret.as_str().into_iter().collect(),
    };
    let headers = argument["headers"].as_object().into_iter().flatten();
    let headers: Vec<(&str, &str)> =
        headers.map(|(name, value)| (name.as_str(), value.as_str().unwrap_or_default())).collect();
    let signature = match argument["signature"].as_str() {
        Some(signature) => SignatureHeaders::Default(signature),
        None => SignatureHeaders::All(&headers),
    };
    let mut options = WebhookOptions { now: argument["now"].as_str().map(ms), ..WebhookOptions::default() };
    if let Some(tolerance) = argument["tolerance_seconds"].as_f64() {
        options.tolerance_seconds = tolerance;
    }
    Ok(match verify_webhook(&body, signature, &secrets, options) {
        Ok(event) => json!({ "event": event.content }),
        Err(error) => json!({ "reason": error.reason() }),
    })
}
