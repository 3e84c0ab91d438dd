use crate::calls::Task;
use crate::service::{Transport, Ureq};
use crate::session::{Parts, Session};
use crate::trust::{read_trust, Identity};
use crate::{timestamps, InvalidRootKey, MemoryStore, RootKey, State, Store};
use serde_json::{json, Map};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The options of a client. `..Options::default()` gives the fields that are optional.
pub struct Options {
    /// Address of the licensing service: `https://licensing.example.com`.
    pub base_url: String,
    /// The application's id, `app_…`.
    pub app_id: String,
    /// The application's root key, `lrk_…`, or several while one is being replaced. Compile it into the product; do not read it
    /// from a file. A signing key is trusted only if one of these root keys has signed it. `"unpinned"` trusts every key, also
    /// one that somebody wrote into the store.
    pub root_key: RootKey,
    /// The customer's licence key. Not needed if the store has one, or if a legacy key is migrated.
    pub licence_key: Option<String>,
    /// Identifies this machine, 1 to 128 characters, the same at every start: see [`machine_fingerprint`](crate::machine_fingerprint).
    pub fingerprint: String,
    /// The name of the machine, or the domain that the product serves: any text of 1 to 253 characters without control characters.
    /// A licence can be restricted to domains.
    pub host: String,
    /// The product's version, 1 to 128 characters.
    pub product_version: String,
    /// Keeps the licence over restarts. Default: memory, which keeps nothing.
    pub store: Arc<dyn Store>,
    /// Sends requests. Default: `ureq` with `rustls`, and the root certificates of Mozilla.
    pub transport: Option<Arc<dyn Transport>>,
    /// The local clock in milliseconds since 1970 UTC. Default: that of the system. It must not call the client.
    pub clock: Option<Arc<dyn Fn() -> i64 + Send + Sync>>,
    /// For tests: creates the nonce of a request, which its token repeats. Default: random.
    pub nonce: Option<Arc<dyn Fn() -> String + Send + Sync>>,
    /// Timeout of each call. Default: 5 s.
    pub timeout: Duration,
    /// Whether the client checks and refreshes by itself between calls. Default: true.
    pub background: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            base_url: String::new(),
            app_id: String::new(),
            root_key: RootKey::default(),
            licence_key: None,
            fingerprint: String::new(),
            host: String::new(),
            product_version: String::new(),
            store: Arc::new(MemoryStore::default()),
            transport: None,
            clock: None,
            nonce: None,
            timeout: Duration::from_secs(5),
            background: true,
        }
    }
}

/// The licence of one installation of a product.
///
/// Only `new` fails, if `root_key` is missing or malformed. A call returns the state after it, within about `timeout`; `has_feature`
/// and `limit` return at once, from the verified token. The first call reads the store and starts the thread of the client, which
/// ends with `close` or when the client is dropped. All functions can be called from several threads.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use licensing::{machine_fingerprint, Client, FileStore, Options};
/// use std::sync::Arc;
///
/// let licence = Client::new(Options {
///     base_url: "https://licensing.example.com".into(),
///     app_id: "app_01kahz5k00e000000000000001".into(),
///     root_key: "lrk_AoDtsaUswXreFakMWbowaDTpbAMp2-AQwFqCXczKfU8".into(),
///     licence_key: Some("7ZK2M-4QX9T-B1N8V-WC3HD-60RPF".into()),
///     fingerprint: machine_fingerprint("app_01kahz5k00e000000000000001", None)?,
///     host: "build-7.example.com".into(),
///     product_version: "4.2.0".into(),
///     store: Arc::new(FileStore::new("/var/lib/acme/licence.json")),
///     ..Options::default()
/// })?;
/// licence.activate();
/// if licence.has_feature("export_pdf") { /* … */ }
/// # Ok(())
/// # }
/// ```
pub struct Client {
    session: Arc<Session>,
}

/// Names a listener: see [`Client::on_change`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListenerId(pub(crate) u64);

impl Client {
    /// Creates a client. It does nothing before the first call.
    ///
    /// # Errors
    ///
    /// If `root_key` is missing or malformed.
    pub fn new(options: Options) -> Result<Self, InvalidRootKey> {
        let Options { app_id, fingerprint, licence_key, root_key, .. } = options;
        let trust = read_trust(&root_key)?;
        let session = Session::new(Parts {
            identity: Identity { app_id, fingerprint, licence_key, trust },
            host: options.host,
            product_version: options.product_version,
            base_url: options.base_url,
            transport: options.transport.unwrap_or_else(|| Arc::new(Ureq::new())),
            store: options.store,
            clock: options.clock,
            nonce: options.nonce,
            timeout: options.timeout,
            background: options.background,
        });
        Ok(Self { session })
    }

    /// The current state. Nothing is granted before the store is read: call `ready` or `activate` first.
    pub fn state(&self) -> State {
        self.session.state()
    }

    /// The licence key in use: the given one, or the one from the store or a migration.
    pub fn licence_key(&self) -> Option<String> {
        self.session.held().licence.key
    }

    /// Reads the store and verifies its content, without the network.
    pub fn ready(&self) -> State {
        self.session.run(Task::Ready)
    }

    /// Activates the product: call it at every start. If the store has a valid token, it returns without the network; otherwise it
    /// activates the licence key on this machine. If the service cannot be reached, the background retries.
    pub fn activate(&self) -> State {
        self.session.run(Task::Activate)
    }

    /// Starts a trial, or continues it: call it instead of `activate` at each start of a product that has no licence key. Each
    /// machine has one trial of a product, permanently. The store keeps the licence key of the trial. If the client has a licence
    /// key, that key is activated. After the trial the reason is `expired` or `trial_used`.
    ///
    /// `plan_code` is the code of a plan with `trial_days`.
    pub fn start_trial(&self, plan_code: &str) -> State {
        self.session.run(Task::StartTrial(plan_code.to_string()))
    }

    /// A request for a licence file, for a machine without a network: JSON text, the body of `POST …/offline-activations` without
    /// `days`. It contains the licence key if it is known. If the clock was ahead and the licence has therefore ended, the request
    /// has a nonce, and time counts from the current clock once the file is read.
    pub fn create_offline_request(&self) -> String {
        let parts = &self.session.parts;
        let nonce = self.session.nonce_for_file();
        // The file may be read after a restart, so the store must have the nonce.
        if nonce.is_some() {
            self.session.start(Task::Ready);
        }
        let mut request = Map::new();
        if let Some(key) = self.licence_key() {
            request.insert("licence_key".into(), json!(key));
        }
        request.insert("fingerprint".into(), json!(parts.identity.fingerprint));
        request.insert("host".into(), json!(parts.host));
        request.insert("product_version".into(), json!(parts.product_version));
        if let Some(nonce) = nonce {
            request.insert("nonce".into(), json!(nonce));
        }
        json!(request).to_string()
    }

    /// Reads a licence file from the vendor, without the network, and keeps it in the store. A file that is refused changes
    /// nothing, and the state says why. It needs a root key.
    pub fn activate_offline(&self, file: &str) -> State {
        self.session.run(Task::ActivateOffline(file.to_string()))
    }

    /// Renews the token now. The background does this at half of the token's life. The valid token of a licence file is not
    /// renewed, because a token of the service is shorter. After a refusal (`suspended`, `expired`, …) a valid token still counts
    /// until its end.
    pub fn refresh(&self) -> State {
        self.session.run(Task::Refresh)
    }

    /// Checks the revocation list now. The background does this within the check interval of the token.
    pub fn check(&self) -> State {
        self.session.run(Task::Check)
    }

    /// Whether a feature is granted now. Returns at once; false for a key that does not exist. If the token has ended while the
    /// machine slept, the background renews it at once: `on_change` reports that.
    pub fn has_feature(&self, key: &str) -> bool {
        self.session.answer(|held, usable| usable && held.claims().is_some_and(|claims| claims.feature(key)))
    }

    /// The current value of a limit; 0 if nothing is granted or the key does not exist. Returns at once.
    pub fn limit(&self, key: &str) -> i64 {
        self.session
            .answer(|held, usable| held.claims().filter(|_| usable).map_or(0, |claims| claims.limit(key)))
    }

    /// Whether the licence includes updates to a release: false if its updates ended before, else true; also true for a text that
    /// is not a time. It says nothing about whether the product is licensed at all.
    ///
    /// `released_at` is when the release was published, ISO 8601: `2026-11-01` or `2026-11-01T12:00:00Z`; in UTC if it names no zone.
    pub fn covers(&self, released_at: &str) -> bool {
        let until = self.session.answer(|held, _| held.claims().and_then(|claims| claims.updates_until));
        until.is_none_or(|until| timestamps::parse(released_at).is_none_or(|released| until >= released))
    }

    /// Exchanges a key of the vendor's former system for a licence key, stores that, and activates it. Can be called at every start:
    /// a key is exchanged once.
    pub fn migrate(&self, legacy_key: &str) -> State {
        self.session.run(Task::Migrate(legacy_key.to_string()))
    }

    /// Frees the activation of this machine, so that the licence can be used on another one. If the service cannot be reached,
    /// nothing changes and the problem of the state says so: try again.
    pub fn deactivate(&self) -> State {
        self.session.run(Task::Deactivate)
    }

    /// Ends the lease of a floating licence, so that another installation can use it at once: call it when the product ends. The
    /// activation stays, and `activate` takes a lease again. Without it the lease ends by itself. If several processes share the
    /// store, they share the lease: call it when the last one ends. On any other licence it changes nothing.
    pub fn release(&self) -> State {
        self.session.run(Task::Release)
    }

    /// Reports to the vendor that this installation is in use, with its host and version. A refresh reports it too.
    pub fn call_home(&self) -> State {
        self.session.run(Task::CallHome)
    }

    /// Calls `listener` after each change of status, reason, token or revocation, on the thread of the client. A call of the client
    /// from a listener is done after the listener, and returns the current state.
    pub fn on_change(&self, listener: impl Fn(&State) + Send + Sync + 'static) -> ListenerId {
        ListenerId(self.session.listen(Arc::new(listener)))
    }

    /// Ends the calls of a listener.
    pub fn remove_listener(&self, listener: ListenerId) {
        self.session.end_listening(listener.0);
    }

    /// Ends the background work, and the thread of the client. It waits until a call that is running has saved, but not for its
    /// request. `has_feature` and `limit` still use the current token; other calls return the state without the network.
    pub fn close(&self) {
        self.session.close();
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.close();
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("app_id", &self.session.parts.identity.app_id).finish_non_exhaustive()
    }
}
