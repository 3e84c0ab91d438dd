//! Calls in any order, whatever the service, the store and the clock do.

mod support;

use licensing::{Client, MemoryStore, Options, Reason, Request, State, Status};
use serde_json::{json, Value};
use std::io;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use support::{call, options_of, respond, shared, vector_files};

/// Numbers that only look random, so that a failure can be repeated (xorshift).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % end as u64).unwrap()
    }

    fn pick<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }
}

/// All values of a field in the steps of the vectors.
fn in_steps<'a>(vectors: &'a [Value], field: &'a str) -> impl Iterator<Item = &'a Value> {
    vectors
        .iter()
        .flat_map(|vector| vector["steps"].as_array().unwrap())
        .filter_map(move |step| step.get(field))
}

fn is_consistent(state: &State) -> bool {
    let (has_reason, has_token) = (state.reason.is_some(), state.expires_at.is_some());
    match state.status {
        Status::Licensed => state.usable && !has_reason && has_token,
        Status::Grace => state.usable && has_reason && has_token,
        Status::Lapsed => !state.usable && has_reason && has_token,
        Status::Refused => !state.usable && has_reason,
        Status::Unlicensed => !state.usable && has_reason && !has_token,
        _ => false,
    }
}

#[test]
fn no_call_fails_and_only_tokens_of_the_application_grant() {
    let vectors: Vec<Value> = vector_files().into_iter().flat_map(|(_, vectors)| vectors).collect();
    let answers = in_steps(&vectors, "answers").flat_map(|answers| answers.as_array().unwrap());
    let replies: Vec<Value> =
        answers.map(|answer| answer["response"].clone()).filter(|reply| reply["fails"] != "never").collect();
    let files: Vec<&str> = in_steps(&vectors, "argument").filter_map(Value::as_str).collect();
    let stores: Vec<&Value> = vectors.iter().map(|vector| &vector["store"]).collect();
    let calls = [
        "ready",
        "activate",
        "refresh",
        "check",
        "deactivate",
        "call_home",
        "migrate",
        "activate_offline",
        "release",
        "start_trial",
    ];
    let mut numbers = Numbers(0x9E37_79B9_7F4A_7C15);
    for round in 0..400 {
        let mut script: Vec<Value> = (0..12).map(|_| numbers.pick(&replies).clone()).collect();
        script.push(json!({ "status": 200 + numbers.below(400), "text": "[{\"code\":" }));
        let script = Mutex::new(script);
        let mut store = numbers.pick(&stores).to_string();
        if round % 4 == 0 {
            store.truncate(
                (0..=numbers.below(store.len() + 1)).rev().find(|end| store.is_char_boundary(*end)).unwrap(),
            );
        }
        let clock = Arc::new(AtomicI64::new(0));
        let now = clock.clone();
        let client = Client::new(Options {
            store: Arc::new(MemoryStore::new(Some(store))),
            clock: Some(Arc::new(move || now.load(Ordering::SeqCst))),
            transport: Some(Arc::new(move |_: &Request| {
                let reply = script.lock().unwrap().pop();
                respond(&reply.ok_or_else(|| io::Error::other("no network"))?)
            })),
            ..options_of(&shared()["client"])
        })
        .unwrap();
        for _ in 0..8 {
            let times = [
                1_795_255_200_000,
                1_795_300_000_000,
                -1_000_000_000_000,
                4_000_000_000_000,
                i64::MAX,
                i64::MIN,
                0,
            ];
            clock.store(*numbers.pick(&times), Ordering::SeqCst);
            let name = *numbers.pick(&calls);
            let state = call(&client, Some(name), numbers.pick::<&str>(&files));
            assert!(is_consistent(&state), "round {round}, {name}: {state:?}");
            let code = state.problem.as_ref().map(|problem| &problem.code);
            assert_ne!(code, Some(&Reason::UNEXPECTED_ERROR), "round {round}, {name}: {state:?}");
            let limit = client.limit("max_projects");
            assert_eq!(state.usable, [25, 3, 5, 100].contains(&limit), "round {round}, {name}: {limit}");
            // Only the token with overrides has it, and no other has this limit.
            assert_eq!(client.has_feature("beta_tools"), limit == 100);
        }
    }
}
