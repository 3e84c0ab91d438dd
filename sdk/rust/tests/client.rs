//! Threads, listeners, the background, and the end of a client.

mod support;

use licensing::{Client, FileStore, Options, Reason, Request, Response, State, Status, Store};
use serde_json::{json, Value};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant};
use support::{jws, ms, options_of, shared};

const START: &str = "2026-11-21T10:00:00.000Z";

/// A service that grants a token, and has a list that names other licences; the test can replace its answer.
#[derive(Default)]
struct Service {
    requests: Mutex<Vec<String>>,
    is_down: AtomicBool,
    token: Mutex<Option<&'static str>>,
}

impl Service {
    fn answer(&self, request: &Request) -> io::Result<Response> {
        let path = request.url.strip_prefix("https://licensing.example.com/v1").unwrap_or(&request.url);
        self.requests.lock().unwrap().push(format!("{} {path}", request.method));
        if self.is_down.load(Ordering::SeqCst) {
            return Err(io::Error::other("no network"));
        }
        let body = match path {
            _ if path.ends_with("jwks.json") => json!({ "keys": [], "signed": [jws("keys")] }),
            _ if path.ends_with("revocations") => json!({ "signature": jws("list_10") }),
            _ => grant(self.token.lock().unwrap().unwrap_or("token")),
        };
        Ok(Response { status: 200, headers: Vec::new(), body: body.to_string().into_bytes() })
    }

    fn requests_with(&self, part: &str) -> usize {
        self.requests.lock().unwrap().iter().filter(|request| request.contains(part)).count()
    }
}

fn grant(token: &str) -> Value {
    let (activation_id, licence_id) = ("act_01kahz5k00e000000000000003", "lic_01kahz5k00e000000000000002");
    json!({ "activation_id": activation_id, "licence_id": licence_id, "token": jws(token) })
}

/// Options of a client of this service, at the time of the vectors.
fn options(service: &Arc<Service>) -> Options {
    let service = service.clone();
    let now = ms(START);
    Options {
        transport: Some(Arc::new(move |request: &Request| service.answer(request))),
        clock: Some(Arc::new(move || now)),
        ..options_of(&shared()["client"])
    }
}

fn client(options: Options) -> Client {
    Client::new(options).expect("the root key is right")
}

/// Waits until something is so.
fn eventually(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(15), "{what}");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn calls_of_many_threads_run_one_at_a_time_and_equal_ones_share_their_outcome() {
    let service = Arc::new(Service::default());
    let licence = client(options(&service));
    let wrong = AtomicUsize::new(0);
    thread::scope(|scope| {
        for at in 0..16 {
            let (licence, wrong) = (&licence, &wrong);
            scope.spawn(move || {
                for round in 0..20 {
                    let state = match (at + round) % 4 {
                        0 => licence.activate(),
                        1 => licence.check(),
                        2 => licence.ready(),
                        _ => licence.state(),
                    };
                    let usable =
                        state.usable || matches!(state.status, Status::Starting | Status::Unlicensed);
                    let agrees = !licence.has_feature("export_pdf") || licence.limit("max_projects") == 25;
                    wrong.fetch_add(usize::from(!usable || !agrees), Ordering::SeqCst);
                }
            });
        }
    });
    assert_eq!(wrong.load(Ordering::SeqCst), 0);
    assert_eq!(licence.state().status, Status::Licensed);
    assert_eq!(service.requests_with("POST /activations"), 1);
}

#[test]
fn a_listener_can_call_the_client_and_its_panic_does_no_harm() {
    let service = Arc::new(Service::default());
    let licence = Arc::new(client(options(&service)));
    let heard = Arc::new(Mutex::new(Vec::new()));
    let (inside, hears) = (Arc::downgrade(&licence), heard.clone());
    licence.on_change(|_| panic!("a listener of the test"));
    let listener = licence.on_change(move |state: &State| {
        hears.lock().unwrap().push(state.status);
        inside.upgrade().unwrap().check();
    });
    let begun = Instant::now();
    assert_eq!(licence.activate().status, Status::Licensed);
    eventually("the call from the listener is done", || service.requests_with("revocations") == 1);
    assert!(begun.elapsed() < Duration::from_secs(4));
    licence.remove_listener(listener);
    licence.deactivate();
    assert_eq!(licence.state().reason, Some(Reason::DEACTIVATED));
    assert!(heard.lock().unwrap().iter().all(|status| *status == Status::Licensed));
}

#[test]
fn the_background_checks_the_list_and_leaves_no_thread_after_the_close() {
    let service = Arc::new(Service::default());
    let licence = client(Options { background: true, ..options(&service) });
    licence.activate();
    eventually("the list is checked", || licence.state().revocations.as_str() == "current");
    let weak = Arc::downgrade(&service);
    drop(service);
    licence.close();
    assert!(licence.has_feature("export_pdf") && licence.refresh().usable);
    drop(licence);
    eventually("the thread has ended", || weak.upgrade().is_none());
}

#[test]
fn a_token_that_ended_while_the_machine_slept_is_renewed_when_a_question_is_asked() {
    let service = Arc::new(Service::default());
    *service.token.lock().unwrap() = Some("token_of_lease");
    let now = Arc::new(AtomicI64::new(ms(START)));
    let clock = now.clone();
    let licence = client(Options {
        background: true,
        clock: Some(Arc::new(move || clock.load(Ordering::SeqCst))),
        ..options(&service)
    });
    assert_eq!(licence.activate().status, Status::Licensed);
    // The machine sleeps, and its timers with it.
    now.fetch_add(20 * 60_000, Ordering::SeqCst);
    *service.token.lock().unwrap() = Some("token_of_lease_after_a_pause");
    assert!(!licence.has_feature("export_pdf"));
    eventually("it is renewed", || licence.has_feature("export_pdf"));
    assert_eq!(service.requests_with("/refresh"), 1);
}

#[test]
fn the_close_ends_a_call_that_waits_for_the_network_and_no_thread_reads_the_clock_after_it() {
    let mut given = options(&Arc::new(Service::default()));
    let readings = Arc::new(AtomicUsize::new(0));
    let clock = readings.clone();
    given.clock = Some(Arc::new(move || clock.fetch_add(1, Ordering::SeqCst) as i64));
    let (entered, is_entered) = (Arc::new(OnceLock::new()), Arc::new(AtomicBool::new(false)));
    let enters = is_entered.clone();
    given.transport = Some(Arc::new(move |_: &Request| {
        enters.store(true, Ordering::SeqCst);
        entered.get_or_init(|| thread::sleep(Duration::from_secs(30)));
        Err(io::Error::other("too late"))
    }));
    given.timeout = Duration::from_secs(60);
    let licence = Arc::new(client(given));
    let waiting = licence.clone();
    let begun = Instant::now();
    let call = thread::spawn(move || waiting.activate());
    eventually("the request is sent", || is_entered.load(Ordering::SeqCst));
    licence.close();
    assert!(!call.join().unwrap().usable);
    drop(licence);
    assert_eq!(Arc::strong_count(&readings), 1, "the request that still waits has nothing of the client");
    assert!(begun.elapsed() < Duration::from_secs(10));
}

#[test]
fn functions_of_the_product_that_panic_do_no_harm() {
    struct Panics;
    impl Store for Panics {
        fn read(&self) -> io::Result<Option<String>> {
            panic!("a store of the test")
        }
        fn write(&self, _: &str) -> io::Result<()> {
            panic!("a store of the test")
        }
    }
    let licence = client(Options {
        store: Arc::new(Panics),
        clock: Some(Arc::new(|| panic!("a clock of the test"))),
        nonce: Some(Arc::new(|| panic!("a nonce of the test"))),
        transport: Some(Arc::new(|_: &Request| -> io::Result<Response> {
            panic!("a transport of the test")
        })),
        ..options_of(&shared()["client"])
    });
    let state = licence.activate();
    assert_eq!((state.status, state.reason), (Status::Unlicensed, Some(Reason::UNREACHABLE)));
    assert_eq!(state.problem.unwrap().code, Reason::STORE_FAILED);
    assert!(licence.create_offline_request().contains("machine-1"));
}

#[test]
fn a_file_store_returns_whole_texts_while_others_write_and_leaves_no_other_file() {
    let folder = std::env::temp_dir().join(format!("licensing-store-{}", std::process::id()));
    let path = folder.join("a/b/licence.json");
    let store = FileStore::new(&path);
    assert_eq!(store.read().unwrap(), None);
    store.write("").unwrap();
    thread::scope(|scope| {
        for at in 0..8 {
            let store = &store;
            scope.spawn(move || {
                for round in 0..5 {
                    store.update(&mut |text| format!("{}{at}{round}\n", text.unwrap())).unwrap();
                }
            });
        }
    });
    let text = store.read().unwrap().unwrap();
    let mut lines: Vec<_> = text.lines().collect();
    lines.sort_unstable();
    let all: Vec<_> = (0..8).flat_map(|at| (0..5).map(move |round| format!("{at}{round}"))).collect();
    assert_eq!(lines, all);
    assert_eq!(std::fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    #[cfg(unix)]
    {
        use std::os::unix::fs::{symlink, PermissionsExt};
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let link = folder.join("link");
        symlink("a/new.json", &link).unwrap();
        FileStore::new(&link).write("linked").unwrap();
        assert_eq!(std::fs::read_to_string(folder.join("a/new.json")).unwrap(), "linked");
        assert!(link.symlink_metadata().unwrap().is_symlink());
    }
    std::fs::remove_dir_all(folder).unwrap();
}
