//! The vectors, and a transport with scripted answers.
#![allow(dead_code)]

use licensing::{Client, Options, Request, Response, RootKey, State, Transport};
use serde_json::{json, Map, Value};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use std::{fs, io, thread};

pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../vectors")
}

fn read(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).expect("the vectors are beside this crate"))
        .expect("vectors are JSON")
}

/// A file of the vectors, unchanged.
pub fn read_vectors(file: &str) -> Value {
    read(&folder().join(file))
}

pub fn shared() -> Value {
    read_vectors("shared.json")
}

/// The JWS of a document of `shared.json`.
pub fn jws(name: &str) -> Value {
    shared()["documents"][name]["jws"].clone()
}

/// All vectors of clients by file, with their references replaced by the values.
pub fn vector_files() -> Vec<(String, Vec<Value>)> {
    let shared = shared();
    let mut names: Vec<_> = fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.retain(|path| {
        path.extension().is_some_and(|ext| ext == "json")
            && !path.ends_with("shared.json")
            && !path.ends_with("webhooks.json")
    });
    names.sort();
    let vectors = |path: &Path| resolve(&read(path), &shared).as_array().unwrap().clone();
    names.iter().map(|path| (path.file_stem().unwrap().to_string_lossy().into(), vectors(path))).collect()
}

fn resolve(value: &Value, shared: &Value) -> Value {
    match value {
        Value::Array(entries) => entries.iter().map(|entry| resolve(entry, shared)).collect(),
        Value::Object(fields) => resolve_object(fields, shared),
        other => other.clone(),
    }
}

fn resolve_object(fields: &Map<String, Value>, shared: &Value) -> Value {
    let jws = |name: &Value| shared["documents"][name.as_str().unwrap()]["jws"].as_str().unwrap().to_string();
    if let Some(name) = fields.get("$value") {
        return resolve(&shared["values"][name.as_str().unwrap()], shared);
    }
    if let Some(name) = fields.get("$jws") {
        return json!(jws(name));
    }
    if let Some(name) = fields.get("$bearer") {
        return json!(format!("Bearer {}", jws(name)));
    }
    if let Some(Value::Array(lines)) = fields.get("$lines") {
        let lines: Vec<_> = lines.iter().map(|line| resolve(line, shared)).collect();
        return json!(lines.iter().map(|line| line.as_str().unwrap()).collect::<Vec<_>>().join("\n"));
    }
    fields.iter().map(|(key, entry)| (key.clone(), resolve(entry, shared))).collect()
}

/// `over` in `base`.
pub fn merged(base: &Value, over: &Value) -> Value {
    let mut fields = base.as_object().unwrap().clone();
    fields.extend(over.as_object().cloned().unwrap_or_default());
    Value::Object(fields)
}

/// Options with these fields of a vector's client.
pub fn options_of(fields: &Value) -> Options {
    let text = |name: &str| fields[name].as_str().unwrap_or_default().to_string();
    let root_key = match &fields["root_key"] {
        Value::String(key) => key.as_str().into(),
        Value::Array(keys) => {
            RootKey::Several(keys.iter().map(|key| key.as_str().unwrap().to_string()).collect())
        }
        _ => RootKey::default(),
    };
    let nonce = fields["nonce"].as_str().map(str::to_string);
    Options {
        base_url: text("base_url"),
        app_id: text("app_id"),
        root_key,
        licence_key: fields["licence_key"].as_str().map(str::to_string),
        fingerprint: text("fingerprint"),
        host: text("host"),
        product_version: text("product_version"),
        nonce: nonce.map(|nonce| Arc::new(move || nonce.clone()) as Arc<dyn Fn() -> String + Send + Sync>),
        background: false,
        ..Options::default()
    }
}

/// The milliseconds since 1970 of a time like `2026-11-21T10:00:00.000Z`.
pub fn ms(text: &str) -> i64 {
    let number = |from: usize, to: usize| text[from..to].parse::<i64>().expect("a time with milliseconds");
    let (year, month, day) = (number(0, 4), number(5, 7), number(8, 10));
    let (y, m) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * y + y / 4 - y / 100 + y / 400 + (153 * m + 2) / 5 + day - 1 - 719_468;
    ((days * 24 + number(11, 13)) * 60 + number(14, 16)) * 60_000 + number(17, 19) * 1000 + number(20, 23)
}

/// Makes a call by its name in the vectors.
pub fn call(client: &Client, name: Option<&str>, argument: &str) -> State {
    match name {
        None => client.state(),
        Some("ready") => client.ready(),
        Some("activate") => client.activate(),
        Some("activate_offline") => client.activate_offline(argument),
        Some("start_trial") => client.start_trial(argument),
        Some("refresh") => client.refresh(),
        Some("check") => client.check(),
        Some("migrate") => client.migrate(argument),
        Some("release") => client.release(),
        Some("deactivate") => client.deactivate(),
        Some("call_home") => client.call_home(),
        Some(other) => panic!("no call is named {other}"),
    }
}

/// A state in the notation of the vectors.
pub fn written(state: &State) -> Value {
    let mut value = serde_json::to_value(state).unwrap();
    value["problem"] = value["problem"]["code"].take();
    value
}

/// Returns the answers of a vector in order, and records the requests.
#[derive(Default)]
pub struct ScriptedService {
    script: Mutex<(Vec<Value>, Vec<Request>)>,
}

impl ScriptedService {
    pub fn script(&self, answers: &Value) {
        *self.script.lock().unwrap() = (answers.as_array().cloned().unwrap_or_default(), Vec::new());
    }

    pub fn requests(&self) -> Vec<Request> {
        self.script.lock().unwrap().1.clone()
    }
}

impl Transport for ScriptedService {
    fn send(&self, request: &Request) -> io::Result<Response> {
        let mut script = self.script.lock().unwrap();
        let answer = script.0.get(script.1.len()).map(|answer| answer["response"].clone());
        script.1.push(request.clone());
        drop(script);
        respond(&answer.ok_or_else(|| io::Error::other("nothing more was expected"))?)
    }
}

pub fn respond(response: &Value) -> io::Result<Response> {
    match response["fails"].as_str() {
        Some("never") => loop {
            thread::sleep(Duration::from_secs(3600));
        },
        Some(_) => return Err(io::Error::other("no such host: licensing.example.com")),
        None => {}
    }
    let headers = response["headers"].as_object().into_iter().flatten();
    let text = |value: &Value| value.as_str().unwrap().to_string();
    Ok(Response {
        status: u16::try_from(response["status"].as_u64().unwrap()).unwrap(),
        headers: headers.map(|(name, value)| (name.clone(), text(value))).collect(),
        body: match response.get("json") {
            Some(json) => json.to_string().into_bytes(),
            None => response["text"].as_str().unwrap_or_default().as_bytes().to_vec(),
        },
    })
}
