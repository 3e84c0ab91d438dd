//! Runs every vector of `sdk/vectors`, each as a test of its name: `cargo test --test vectors [part of a name]`.

mod support;

use base64::{engine::general_purpose::STANDARD, Engine};
use licensing::{verify_webhook, Client, MemoryStore, SignatureHeaders, Store, WebhookOptions};
use serde_json::{json, Map, Value};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use std::{env, io, process, thread};
use support::{call, merged, ms, options_of, read_vectors, shared, vector_files, written, ScriptedService};

fn main() {
    let wanted: Vec<String> = env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let (mut passed, mut failed) = (0, Vec::new());
    let mut files = vector_files();
    files.push(("webhooks".into(), read_vectors("webhooks.json").as_array().unwrap().clone()));
    println!("running {} tests", files.iter().map(|(_, vectors)| vectors.len()).sum::<usize>());
    for (file, vectors) in files {
        let test = if file == "webhooks" { verify } else { play };
        for vector in vectors {
            let name = format!("{file}::{}", vector["name"].as_str().unwrap());
            if !wanted.is_empty() && !wanted.iter().any(|part| name.contains(part)) {
                continue;
            }
            let is_right = catch_unwind(AssertUnwindSafe(|| test(&vector))).is_ok();
            println!("test {name} ... {}", if is_right { "ok" } else { "FAILED" });
            if is_right {
                passed += 1
            } else {
                failed.push(name)
            }
        }
    }
    let result = if failed.is_empty() { "ok" } else { "FAILED" };
    println!(
        "\ntest result: {result}. {passed} passed; {} failed; 0 ignored; 0 measured; 0 filtered out",
        failed.len()
    );
    process::exit(i32::from(!failed.is_empty()));
}

fn verify(delivery: &Value) {
    let text = |name: &str| delivery[name].as_str();
    let encoded = text("body_base64").map(|bytes| STANDARD.decode(bytes).unwrap());
    let body = encoded.unwrap_or_else(|| text("body").unwrap().into());
    let headers = delivery["headers"].as_object().into_iter().flatten();
    let headers: Vec<_> = headers.map(|(name, value)| (name.as_str(), value.as_str().unwrap())).collect();
    let given = text("signature").map_or(SignatureHeaders::All(&headers), SignatureHeaders::Default);
    let secrets = delivery["secrets"].as_array().unwrap();
    let secrets: Vec<_> = secrets.iter().map(|secret| secret.as_str().unwrap()).collect();
    let options = WebhookOptions {
        tolerance_seconds: delivery["tolerance_seconds"].as_f64().unwrap_or(300.0),
        now: text("clock").map(ms),
    };
    match verify_webhook(&body, given, &secrets, options) {
        Ok(event) => {
            assert_eq!(None, text("reason"));
            assert_eq!(event.content, serde_json::from_slice(&body).unwrap());
        }
        Err(error) => assert_eq!(Some(error.reason()), text("reason")),
    }
}

fn play(vector: &Value) {
    let service = Arc::new(ScriptedService::default());
    let store = Arc::new(VectorStore::new(vector));
    let clock = Arc::new(AtomicI64::new(ms(vector["clock"].as_str().unwrap())));
    let start = |fields: &Value| {
        let given = merged(&merged(&shared()["client"], &vector["client"]), fields);
        let now = clock.clone();
        let must_wait = vector.to_string().contains("\"never\"");
        Client::new(licensing::Options {
            store: store.clone(),
            transport: Some(service.clone()),
            clock: Some(Arc::new(move || now.load(Ordering::SeqCst))),
            timeout: Duration::from_millis(if must_wait { 500 } else { 30_000 }),
            ..options_of(&given)
        })
    };
    if vector["refused"] == true {
        assert!(start(&json!({})).is_err(), "the client was created");
        return;
    }
    let mut client = start(&json!({})).expect("the root key is right");
    for (index, step) in vector["steps"].as_array().unwrap().iter().enumerate() {
        if step.get("clock").is_some() {
            clock.store(ms(step["clock"].as_str().unwrap()), Ordering::SeqCst);
        }
        if let Some(content) = step.get("store") {
            store.memory.write(&text_of(content)).unwrap();
        }
        if let Some(fields) = step.get("restart") {
            client = start(fields).expect("the root key is right");
        }
        service.script(&step["answers"]);
        let state = call(&client, step["call"].as_str(), step["argument"].as_str().unwrap_or_default());
        let seen = observed(&client, step, written(&state), &store);
        let place = format!("{}, step {}", vector["name"], index + 1);
        assert_matches(&seen, &expected(step), &place);
        let requests = service.requests();
        let answers = step["answers"].as_array().cloned().unwrap_or_default();
        assert_eq!(requests.len(), answers.len(), "{place}: {requests:?}");
        for (request, answer) in requests.iter().zip(&answers) {
            assert_request(request, answer, &place);
        }
    }
}

fn text_of(content: &Value) -> String {
    content.as_str().map_or_else(|| content.to_string(), str::to_string)
}

/// The store of a vector, which may fail.
struct VectorStore {
    memory: MemoryStore,
    fails: Option<String>,
    /// Held while a test asks questions, which are to be answered before the store is read.
    reading: Mutex<()>,
}

impl VectorStore {
    fn new(vector: &Value) -> Self {
        let content = Some(&vector["store"]).filter(|content| !content.is_null()).map(text_of);
        let fails = vector["store_fails"].as_str().map(str::to_string);
        Self { memory: MemoryStore::new(content), fails, reading: Mutex::new(()) }
    }

    fn fail(&self, kind: &str) -> io::Result<()> {
        match self.fails.as_deref() {
            Some("never") => loop {
                thread::sleep(Duration::from_secs(3600));
            },
            Some(fails) if fails == kind => Err(io::Error::other("the disk is broken")),
            _ => Ok(()),
        }
    }
}

impl Store for VectorStore {
    fn read(&self) -> io::Result<Option<String>> {
        drop(self.reading.lock().unwrap());
        self.fail("read")?;
        self.memory.read()
    }

    fn write(&self, text: &str) -> io::Result<()> {
        self.fail("write")?;
        self.memory.write(text)
    }
}

/// The client in the notation of the vectors.
fn observed(client: &Client, step: &Value, state: Value, store: &VectorStore) -> Value {
    let _reading = store.reading.lock().unwrap();
    let ask = |name: &str, answer: &dyn Fn(&str) -> Value| {
        let keys = step[name].as_object().into_iter().flatten();
        Value::Object(keys.map(|(key, _)| (key.clone(), answer(key))).collect())
    };
    let mut seen = Map::new();
    seen.insert("state".into(), state);
    seen.insert("features".into(), ask("features", &|key| json!(client.has_feature(key))));
    seen.insert("limits".into(), ask("limits", &|key| json!(client.limit(key))));
    seen.insert("covers".into(), ask("covers", &|time| json!(client.covers(time))));
    if step.get("offline_request").is_some() {
        let request = serde_json::from_str(&client.create_offline_request()).unwrap();
        seen.insert("offline_request".into(), request);
    }
    Value::Object(seen)
}

fn expected(step: &Value) -> Value {
    let names = ["state", "features", "limits", "covers", "offline_request"];
    let fields = names.iter().filter_map(|name| Some((name.to_string(), step.get(name)?.clone())));
    Value::Object(fields.collect())
}

/// Each value of `expected` is in `seen`; other fields are not compared.
fn assert_matches(seen: &Value, expected: &Value, place: &str) {
    match expected {
        Value::Object(fields) => {
            for (name, value) in fields {
                assert_matches(&seen[name], value, &format!("{place}, {name}"));
            }
        }
        other => assert_eq!(seen, other, "{place}"),
    }
}

fn assert_request(request: &licensing::Request, answer: &Value, place: &str) {
    let header =
        |name: &str| request.headers.iter().find(|(given, _)| *given == name).map(|(_, value)| value);
    let path = request.url.strip_prefix("https://licensing.example.com").expect("the address of the service");
    assert_eq!(json!(format!("{} {path}", request.method)), answer["request"], "{place}");
    for (name, value) in answer["with_headers"].as_object().into_iter().flatten() {
        assert_eq!(header(name).map(|given| json!(given)).as_ref(), Some(value), "{place}, {name}");
    }
    for name in answer["without_headers"].as_array().into_iter().flatten() {
        assert_eq!(header(name.as_str().unwrap()), None, "{place}");
    }
    if let Some(expected) = answer.get("with_json") {
        assert_matches(&serde_json::from_str(&request.body).unwrap_or_default(), expected, place);
    }
}
