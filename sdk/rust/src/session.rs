//! Keeps the two values of an installation, and one thread that does one task at a time, with a timeout, between a read of the
//! store and a save. The thread begins with the first call, and also does the background work.

use crate::attempts::{Attempts, Trouble};
use crate::background::{due_times, DueTimes};
use crate::calls::Task;
use crate::held::{Held, Verified};
use crate::record::{read_record, write_record, Found};
use crate::service::{read_answer, Answer, Call, Transport};
use crate::state::{is_usable, state_of};
use crate::timestamps::MAX_MS;
use crate::trust::Identity;
use crate::{random, Operation, Reason, State, Store};
use std::collections::VecDeque;
use std::io;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::{mpsc, Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Called after each change of the state.
pub(crate) type Listener = dyn Fn(&State) + Send + Sync;

/// The options of a client, prepared.
pub(crate) struct Parts {
    pub(crate) identity: Identity,
    pub(crate) host: String,
    pub(crate) product_version: String,
    pub(crate) base_url: String,
    pub(crate) transport: Arc<dyn Transport>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Option<Arc<dyn Fn() -> i64 + Send + Sync>>,
    pub(crate) nonce: Option<Arc<dyn Fn() -> String + Send + Sync>>,
    pub(crate) timeout: Duration,
    pub(crate) background: bool,
}

pub(crate) struct Session {
    pub(crate) parts: Parts,
    jitter: f64,
    /// Locked for moments only, never while the store, the network or a listener is at work.
    inner: Mutex<Inner>,
    /// A task was queued or done, or the session was closed.
    changed: Condvar,
}

struct Inner {
    held: Held,
    attempts: Attempts,
    /// The text of the store that was last read or written; none before the first read.
    store_text: Option<Option<String>>,
    /// The revision of that text, if it belongs to another licence key or machine.
    foreign_revision: Option<u64>,
    store_works: bool,
    /// Whether the product has asked for a licence, and the task with which it did so last.
    is_requested: bool,
    start: Task,
    queue: VecDeque<Arc<Job>>,
    running: Option<Arc<Job>>,
    /// When the requests of the task that is running end.
    deadline: Instant,
    /// Ends the wait for a request, which may have ended already.
    end_request: Option<Box<dyn FnOnce() + Send>>,
    worker: Option<JoinHandle<()>>,
    /// Whether the worker may still do something.
    is_working: bool,
    /// When the background looks what is due.
    timer: Option<Instant>,
    is_woken: bool,
    closed: bool,
    listeners: Vec<(u64, Arc<Listener>)>,
    last_listener: u64,
    notified: Option<State>,
}

/// A task that waits or runs. Equal calls share it.
pub(crate) struct Job {
    task: Task,
    outcome: OnceLock<State>,
}

enum Next {
    Job(Arc<Job>),
    DueTasks,
}

impl Session {
    pub(crate) fn new(parts: Parts) -> Arc<Self> {
        let local = local_time(parts.clock.as_deref());
        let inner = Inner {
            held: Held::empty(parts.identity.licence_key.clone(), local),
            attempts: Attempts::none(),
            store_text: None,
            foreign_revision: None,
            store_works: true,
            is_requested: false,
            start: Task::Activate,
            queue: VecDeque::new(),
            running: None,
            deadline: Instant::now(),
            end_request: None,
            worker: None,
            is_working: false,
            timer: None,
            is_woken: false,
            closed: false,
            listeners: Vec::new(),
            last_listener: 0,
            notified: None,
        };
        let (jitter, inner) = (random::fraction(), Mutex::new(inner));
        Arc::new(Self { parts, jitter, inner, changed: Condvar::new() })
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the values, and reads the clock.
    fn observed(&self) -> MutexGuard<'_, Inner> {
        let mut inner = self.lock();
        inner.held.observe(local_time(self.parts.clock.as_deref()));
        inner
    }

    // Used by the calls

    pub(crate) fn held(&self) -> Held {
        self.lock().held.clone()
    }

    pub(crate) fn attempts(&self) -> Attempts {
        self.lock().attempts.clone()
    }

    pub(crate) fn state(&self) -> State {
        let inner = self.observed();
        state_of(&inner.held, &inner.attempts)
    }

    /// Reads the clock, and returns the trusted time.
    pub(crate) fn time(&self) -> i64 {
        self.observed().held.time.time
    }

    pub(crate) fn apply(&self, answer: Verified) {
        self.observed().held.apply(answer);
    }

    pub(crate) fn record(&self, change: impl FnOnce(&mut Attempts)) {
        change(&mut self.lock().attempts);
    }

    pub(crate) fn set_requested(&self, is_requested: bool) {
        self.lock().is_requested = is_requested;
    }

    pub(crate) fn new_nonce(&self) -> String {
        let given = self.parts.nonce.as_ref();
        given.and_then(|nonce| safely(|| nonce())).unwrap_or_else(random::nonce)
    }

    /// The nonce of a request for an offline file; none if the file need not set the time back.
    pub(crate) fn nonce_for_file(&self) -> Option<String> {
        let nonce = self.new_nonce();
        let mut inner = self.observed();
        if inner.held.needs_nonce() {
            inner.held.licence.nonce = Some(nonce);
        }
        inner.held.licence.nonce.clone()
    }

    /// Sends a request, and waits for the answer until the deadline of the task.
    pub(crate) fn ask(&self, call: &Call<'_>) -> Answer {
        let until = self.lock().deadline;
        let in_time = until.saturating_duration_since(Instant::now());
        let timeout = || Trouble::new(Reason::TIMEOUT, format!("{} was not answered in time", call.path));
        if in_time.is_zero() || self.lock().closed {
            return Answer::Failure(timeout());
        }
        let request = call.request(&self.parts.base_url, in_time);
        let transport = self.parts.transport.clone();
        match self.within(in_time, true, move || transport.send(&request)) {
            Ok(response) => read_answer(response, local_time(None)),
            Err(error) if error.kind() == io::ErrorKind::TimedOut || Instant::now() >= until => {
                Answer::Failure(timeout())
            }
            Err(error) => Answer::Failure(Trouble::new(Reason::UNREACHABLE, error.to_string())),
        }
    }

    // Used by the client

    /// Answers from the token that is known now, by its claims if all is granted. The first question starts the session, and a
    /// token that has ended while the machine slept is renewed at once.
    pub(crate) fn answer<T>(self: &Arc<Self>, from: impl FnOnce(&Held, bool) -> T) -> T {
        let mut inner = self.observed();
        let is_usable = is_usable(&inner.held, &inner.attempts);
        let answer = from(&inner.held, is_usable);
        let is_started = inner.store_text.is_some() || inner.running.is_some() || !inner.queue.is_empty();
        if is_started && !is_usable && self.parts.background && !inner.is_woken && !inner.closed {
            inner.is_woken = self.due_times(&inner).is_token_due();
            self.changed.notify_all();
        }
        drop(inner);
        if !is_started {
            self.start(Task::Ready);
        }
        answer
    }

    /// Does a task, and returns the state after it. If an equal task waits or runs, returns its outcome.
    pub(crate) fn run(self: &Arc<Self>, task: Task) -> State {
        let Some(job) = self.start(task) else { return self.state() };
        // A listener that hangs must not block the product longer than a task can take with those before it.
        let until = Instant::now() + self.parts.timeout * 6;
        let mut inner = self.lock();
        // A listener runs on the worker, which cannot wait for its own next task.
        let is_worker =
            inner.worker.as_ref().is_some_and(|worker| worker.thread().id() == thread::current().id());
        while !is_worker && !inner.closed && job.outcome.get().is_none() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            inner = self.changed.wait_timeout(inner, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        drop(inner);
        job.outcome.get().cloned().unwrap_or_else(|| self.state())
    }

    /// Queues a task, unless an equal one waits or runs; none if the session is closed, or can have no thread.
    pub(crate) fn start(self: &Arc<Self>, task: Task) -> Option<Arc<Job>> {
        let mut inner = self.lock();
        if inner.closed {
            return None;
        }
        if task.asks_for_licence() {
            inner.start = task.clone();
        }
        if let Some(job) = inner.running.iter().chain(&inner.queue).find(|job| job.task == task) {
            return Some(job.clone());
        }
        if inner.worker.is_none() {
            let session = self.clone();
            match thread::Builder::new().name("licensing".into()).spawn(move || session.work()) {
                Ok(worker) => (inner.worker, inner.is_working) = (Some(worker), true),
                Err(error) => {
                    drop(inner);
                    self.record_unexpected(&error.to_string());
                    return None;
                }
            }
        }
        let job = Arc::new(Job { task, outcome: OnceLock::new() });
        inner.queue.push_back(job.clone());
        self.changed.notify_all();
        Some(job)
    }

    pub(crate) fn listen(&self, listener: Arc<Listener>) -> u64 {
        let mut inner = self.lock();
        inner.last_listener += 1;
        let id = inner.last_listener;
        inner.listeners.push((id, listener));
        id
    }

    pub(crate) fn end_listening(&self, id: u64) {
        self.lock().listeners.retain(|(listener, _)| *listener != id);
    }

    /// Ends the thread, and the wait for a request. Waits until the task that is running has saved, but not for longer than it may
    /// take: after that, no thread of the session calls a function of the product.
    pub(crate) fn close(&self) {
        let mut inner = self.lock();
        inner.closed = true;
        inner.listeners.clear();
        if let Some(end_request) = inner.end_request.take() {
            end_request();
        }
        self.changed.notify_all();
        let until = Instant::now() + self.parts.timeout;
        let is_worker = |worker: &JoinHandle<()>| worker.thread().id() == thread::current().id();
        if inner.worker.as_ref().is_some_and(is_worker) {
            return;
        }
        while inner.is_working {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            inner = self.changed.wait_timeout(inner, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        let worker = inner.worker.take();
        drop(inner);
        if let Some(worker) = worker {
            let _ = worker.join();
        }
    }

    // The worker

    fn work(self: Arc<Self>) {
        while let Some(next) = self.next() {
            match next {
                Next::Job(job) => self.perform(&job),
                Next::DueTasks => self.perform_due_tasks(),
            }
        }
        self.lock().is_working = false;
        self.changed.notify_all();
    }

    /// Waits for what is next; none if the session was closed.
    fn next(&self) -> Option<Next> {
        let mut inner = self.lock();
        loop {
            if inner.closed {
                return None;
            }
            if let Some(job) = inner.queue.pop_front() {
                inner.running = Some(job.clone());
                return Some(Next::Job(job));
            }
            let left = inner.timer.map(|timer| timer.saturating_duration_since(Instant::now()));
            if inner.is_woken || left.is_some_and(|left| left.is_zero()) {
                inner.is_woken = false;
                inner.timer = None;
                return Some(Next::DueTasks);
            }
            inner = match left {
                Some(left) => {
                    self.changed.wait_timeout(inner, left).unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.changed.wait(inner).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    fn perform(self: &Arc<Self>, job: &Arc<Job>) {
        let work = || {
            self.read_store();
            if !self.lock().closed {
                self.lock().deadline = Instant::now() + self.parts.timeout;
                self.call(&job.task);
            }
        };
        if safely(work).is_none() {
            self.record_unexpected("the call panicked");
        }
        self.save();
        self.notify_listeners();
        let mut inner = self.observed();
        let sleep = self.due_times(&inner).sleep();
        inner.timer = sleep.filter(|_| self.parts.background).map(|sleep| Instant::now() + sleep);
        inner.running = None;
        let _ = job.outcome.set(state_of(&inner.held, &inner.attempts));
        self.changed.notify_all();
    }

    fn due_times(&self, inner: &Inner) -> DueTimes {
        due_times(&inner.held, &inner.attempts, inner.is_requested, self.jitter)
    }

    fn perform_due_tasks(self: &Arc<Self>) {
        self.perform_due_task(|due, _| due.is_list_due().then_some(Task::Check));
        // Looked at again: meanwhile the product may have released or freed its place.
        self.perform_due_task(|due, inner| {
            let renew = || if inner.held.token().is_some() { Task::Refresh } else { inner.start.clone() };
            due.is_token_due().then(renew)
        });
        self.notify_listeners();
        let mut inner = self.observed();
        let sleep = self.due_times(&inner).sleep();
        inner.timer = sleep.map(|sleep| Instant::now() + sleep);
    }

    fn perform_due_task(self: &Arc<Self>, due_task: impl FnOnce(&DueTimes, &Inner) -> Option<Task>) {
        let mut inner = self.observed();
        let Some(task) = due_task(&self.due_times(&inner), &inner).filter(|_| !inner.closed) else { return };
        let job = Arc::new(Job { task, outcome: OnceLock::new() });
        inner.running = Some(job.clone());
        drop(inner);
        self.perform(&job);
    }

    /// Reads the store before each task, because other processes may have written. After an error, only a save tries again.
    fn read_store(self: &Arc<Self>) {
        if !self.lock().store_works {
            return;
        }
        let store = self.parts.store.clone();
        let text = self.within(self.parts.timeout, false, move || store.read()).unwrap_or_else(|error| {
            self.store_failed(&error);
            None
        });
        self.absorb(text.as_deref());
    }

    fn absorb(&self, text: Option<&str>) {
        let inner = self.observed();
        if inner.store_text.as_ref().is_some_and(|last| last.as_deref() == text) {
            return;
        }
        let mine = inner.held.clone();
        drop(inner);
        let Found { held, absence, foreign_revision } = read_record(text, &mine, &self.parts.identity);
        let mut inner = self.observed();
        let jws_of = |held: &Held| held.token().map(|token| token.jws.clone());
        let before = jws_of(&inner.held);
        inner.held.absorb(held);
        inner.foreign_revision = foreign_revision;
        let after = jws_of(&inner.held);
        if !inner.attempts.is_store_read {
            inner.attempts.is_store_read = true;
            if let Some(absence) = absence {
                inner.attempts.absence = absence;
            }
            // A record of another licence key is replaced.
            if let Some(revision) = foreign_revision {
                inner.held.licence.revision = revision + 1;
            }
        } else if before != after {
            if after.is_none() {
                inner.attempts.absence = Reason::DEACTIVATED;
            }
            inner.attempts.end_token_problems();
        }
        inner.store_text = Some(text.map(str::to_string));
    }

    fn save(self: &Arc<Self>) {
        let (store, session) = (self.parts.store.clone(), self.clone());
        let save = move || store.update(&mut |text| session.text_to_save(text));
        match self.within(self.parts.timeout, false, save) {
            Ok(()) => {
                let mut inner = self.observed();
                inner.store_works = true;
                let time = inner.held.time.time;
                inner.attempts.record(Operation::Store, None, time);
            }
            Err(error) => self.store_failed(&error),
        }
    }

    /// The next text of a store that has `text` now.
    fn text_to_save(&self, text: Option<&str>) -> String {
        self.absorb(text);
        let inner = self.lock();
        if let Some(text) = text.filter(|_| inner.foreign_revision.unwrap_or(0) > inner.held.licence.revision)
        {
            // The store now belongs to another product or machine, which was activated later.
            return text.to_string();
        }
        drop(inner);
        self.nonce_for_file();
        let mut inner = self.lock();
        inner.foreign_revision = None;
        let text = write_record(&inner.held, &self.parts.identity);
        inner.store_text = Some(Some(text.clone()));
        text
    }

    fn store_failed(&self, error: &io::Error) {
        self.lock().store_works = false;
        let trouble = Trouble::new(Reason::STORE_FAILED, error.to_string());
        self.record_problem(Operation::Store, Some(&trouble));
    }

    fn record_unexpected(&self, detail: &str) {
        self.record_problem(Operation::Internal, Some(&Trouble::new(Reason::UNEXPECTED_ERROR, detail)));
    }

    /// Does work that may hang on a thread of its own, and waits for it at most `time`, and not after `close` if it is a request. The
    /// thread of a request may end later than the session, so it has nothing of it.
    fn within<T: Send + 'static>(
        &self,
        time: Duration,
        is_request: bool,
        work: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let (done, outcome) = mpsc::channel();
        let end = done.clone();
        let end = Box::new(move || drop(end.send(None)));
        let mut inner = self.lock();
        match inner.closed {
            true if is_request => end(),
            _ => inner.end_request = is_request.then_some(end),
        }
        drop(inner);
        thread::Builder::new().name("licensing".into()).spawn(move || {
            let panicked = || Err(io::Error::other("a function of the product panicked"));
            let _ = done.send(Some(safely(work).unwrap_or_else(panicked)));
        })?;
        outcome.recv_timeout(time).ok().flatten().unwrap_or_else(|| {
            let detail = format!("timed out after {} ms", time.as_millis());
            Err(io::Error::new(io::ErrorKind::TimedOut, detail))
        })
    }

    /// Calls the listeners if the state has changed. A change of a problem only counts if its code changed.
    fn notify_listeners(&self) {
        let state = self.state();
        let mut compared = state.clone();
        if let Some(problem) = &mut compared.problem {
            problem.operation = Operation::Internal;
            problem.detail.clear();
            problem.at.clear();
        }
        let mut inner = self.lock();
        if inner.closed || inner.notified.as_ref() == Some(&compared) {
            return;
        }
        inner.notified = Some(compared);
        let listeners: Vec<_> = inner.listeners.iter().map(|(_, listener)| listener.clone()).collect();
        drop(inner);
        for listener in listeners {
            // An error of a listener does not affect the licence.
            safely(|| listener(&state));
        }
    }
}

/// The local clock. A clock that panics or returns no time must not stop the product.
fn local_time(given: Option<&(dyn Fn() -> i64 + Send + Sync)>) -> i64 {
    let given = given.and_then(safely).filter(|ms| ms.unsigned_abs() <= MAX_MS.unsigned_abs());
    let since_1970 = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    given.unwrap_or_else(|| i64::try_from(since_1970().as_millis()).map_or(MAX_MS, |ms| ms.min(MAX_MS)))
}

/// Does work; `None` if it panics.
fn safely<T>(work: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(work)).ok()
}
