package licensing;

import java.net.http.HttpClient;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Future;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Consumer;
import java.util.function.Supplier;
import java.util.function.UnaryOperator;
import licensing.Attempts.Trouble;
import licensing.Background.DueTimes;
import licensing.LicenceState.Operation;
import licensing.StoredRecord.Found;

/**
 * Keeps the two values of an installation, and a worker: one operation runs at a time, with a
 * timeout, between a read of the store and a save.
 *
 * <p>The worker is the only thread that changes what is kept, except that each thread may read the
 * clock, which moves the trusted time, and may create a nonce. So each change is one synchronized
 * step from value to value, and no step waits for the network, the store or a signature.
 */
final class Session {
  private final LicenceClient.Builder options;
  private final Identity identity;
  private final Service service;
  private final Background background;
  private final Calls calls = new Calls(this);

  private final ScheduledThreadPoolExecutor worker;
  private volatile Thread workerThread;

  /** Threads for what may hang: the store, and the network. */
  private final ExecutorService helpers;

  private final List<Consumer<LicenceState>> listeners = new CopyOnWriteArrayList<>();
  private final Map<String, CompletableFuture<LicenceState>> running = new HashMap<>();
  private final CompletableFuture<Void> stopped = new CompletableFuture<>();
  private final double jitter = Math.random();

  private Held held;
  private Attempts attempts = Attempts.NONE;
  private volatile boolean isStarted = false;

  /**
   * Repeats the call with which the product asked for a licence last; null if it did not, or has
   * freed the licence since.
   */
  private volatile Supplier<CompletableFuture<LicenceState>> request;

  private volatile HttpClient http;

  // Only the worker, and the helper that saves for it, use what follows.
  private final Object storeLock = new Object();

  /** The text of the store that was last read or written. */
  private String storeText;

  private boolean isStoreTextKnown = false;

  /** The revision of that text, if it belongs to another licence key or machine. */
  private Long foreignRevision;

  private boolean storeWorks = true;
  private long deadline;
  private Object notifiedState;

  Session(LicenceClient.Builder options, Identity identity) {
    this.options = options;
    this.identity = identity;
    this.held = Held.empty(identity.licenceKey(), now());
    this.http = options.httpClient;
    this.service = new Service(options.baseUrl);
    this.worker =
        new ScheduledThreadPoolExecutor(1, daemons("licence", thread -> workerThread = thread));
    worker.setRemoveOnCancelPolicy(true);
    this.helpers =
        new ThreadPoolExecutor(
            0,
            Integer.MAX_VALUE,
            5,
            TimeUnit.SECONDS,
            new SynchronousQueue<>(),
            daemons("licence-io", thread -> {}));
    this.background = new Background(worker, this::dueTimes, this::runDueTasks);
  }

  private static ThreadFactory daemons(String name, Consumer<Thread> created) {
    return work -> {
      Thread thread = new Thread(work, name);
      thread.setDaemon(true);
      created.accept(thread);
      return thread;
    };
  }

  Identity identity() {
    return identity;
  }

  String host() {
    return options.host;
  }

  String productVersion() {
    return options.productVersion;
  }

  String newNonce() {
    return options.nonce.get();
  }

  synchronized Held held() {
    return held;
  }

  synchronized Attempts attempts() {
    return attempts;
  }

  synchronized LicenceState state() {
    time();
    return LicenceState.of(held, attempts);
  }

  /** Reads the clock, and returns the trusted time in milliseconds. */
  synchronized long time() {
    held = held.observed(now());
    return held.time().time();
  }

  /** The local clock. A clock that throws or returns no time must not stop the product. */
  private long now() {
    try {
      long now = options.clock.millis();
      if (Math.abs(now) <= SeenTime.MAX_MS) return now;
    } catch (RuntimeException | Error failed) {
      // The clock of the system counts instead.
    }
    return System.currentTimeMillis();
  }

  synchronized void apply(UnaryOperator<Held> answer) {
    time();
    held = answer.apply(held);
  }

  synchronized void record(Attempts next) {
    attempts = next;
  }

  synchronized boolean isUsable() {
    time();
    return LicenceState.grants(LicenceState.statusOf(held, attempts));
  }

  /**
   * The claims of the token if it grants anything now, else null. The first call starts the client.
   */
  TokenClaims usableClaims() {
    start();
    synchronized (this) {
      if (isUsable()) return held.claims();
    }
    if (options.background) background.wake();
    return null;
  }

  /** Reads the store, if nothing was called yet. */
  void start() {
    if (!isStarted) run("ready", () -> {});
  }

  /** The nonce of a request for an offline file; null if the file need not set the time back. */
  synchronized String nonceForFile() {
    time();
    if (held.needsNonce()) held = held.withLicence(held.licence().withNonce(newNonce()));
    return held.licence().nonce();
  }

  void setRequest(Supplier<CompletableFuture<LicenceState>> again) {
    request = again;
  }

  Calls calls() {
    return calls;
  }

  Answer ask(Service.Call call) {
    // The first request creates the HTTP client. On a busy machine that takes long, and it is not
    // the service's time.
    long begun = System.nanoTime();
    HttpClient client = http();
    deadline += System.nanoTime() - begun;
    return service.ask(client, call, deadline, stopped);
  }

  private HttpClient http() {
    HttpClient client = http;
    if (client != null) return client;
    // It uses the threads of the session, so that none is left when that is closed.
    http =
        client =
            HttpClient.newBuilder().executor(helpers).version(HttpClient.Version.HTTP_1_1).build();
    return client;
  }

  boolean isWorker() {
    return Thread.currentThread() == workerThread;
  }

  /** Runs an operation. If the same operation is waiting or running, returns its result. */
  CompletableFuture<LicenceState> run(String name, Runnable work) {
    synchronized (running) {
      if (stopped.isDone()) return CompletableFuture.completedFuture(state());
      isStarted = true;
      CompletableFuture<LicenceState> outcome = running.get(name);
      if (outcome == null) {
        outcome = CompletableFuture.supplyAsync(() -> perform(name, work), worker);
        running.put(name, outcome);
      }
      return outcome;
    }
  }

  private LicenceState perform(String name, Runnable work) {
    try {
      deadline = System.nanoTime() + options.timeout.toNanos();
      readStore();
      if (stopped.isDone()) return state();
      deadline = System.nanoTime() + options.timeout.toNanos();
      work.run();
    } catch (Throwable failed) {
      recordProblem(Operation.INTERNAL, Reasons.UNEXPECTED_ERROR, failed);
    } finally {
      synchronized (running) {
        running.remove(name);
      }
    }
    save();
    notifyListeners();
    if (options.background) background.schedule();
    return state();
  }

  Runnable listen(Consumer<LicenceState> listener) {
    // Each registration is an object of its own, so that a listener that was added twice is removed
    // once.
    Consumer<LicenceState> registered = listener::accept;
    listeners.add(registered);
    return () -> listeners.remove(registered);
  }

  /**
   * Ends calls that are running and the background work, and waits until the last save has ended.
   */
  void stop() {
    synchronized (running) {
      stopped.complete(null);
    }
    background.stop();
    listeners.clear();
    worker.shutdown();
    try {
      if (!isWorker()) worker.awaitTermination(options.timeout.toMillis(), TimeUnit.MILLISECONDS);
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
    }
    helpers.shutdownNow();
    http = null;
  }

  /**
   * Reads the store before each operation, because other processes may have written. After an
   * error, only a save tries again.
   */
  private void readStore() {
    if (!storeWorks) return;
    String text = null;
    try {
      text = withTimeout(options.store::read);
    } catch (Exception failed) {
      storeWorks = false;
      recordProblem(Operation.STORE, Reasons.STORE_FAILED, failed);
    }
    absorb(text);
  }

  private void absorb(String text) {
    synchronized (storeLock) {
      if (isStoreTextKnown && Objects.equals(text, storeText)) return;
      time();
      Found found = StoredRecord.read(text, held(), identity);
      synchronized (this) {
        time();
        Held.Token before = held.token();
        held = held.absorb(found.held());
        Held.Token after = held.token();
        if (!attempts.isStoreRead()) begin(found);
        else if (!Objects.equals(jws(before), jws(after)))
          attempts =
              after == null
                  ? attempts.withNewToken().withAbsence(Reasons.DEACTIVATED)
                  : attempts.withNewToken();
      }
      foreignRevision = found.foreignRevision();
      storeText = text;
      isStoreTextKnown = true;
    }
  }

  private static String jws(Held.Token token) {
    return token == null ? null : token.jws();
  }

  /**
   * At the first read, the record says why there is no token. A record of another licence key is
   * replaced.
   */
  private void begin(Found found) {
    attempts = attempts.withStoreRead();
    if (found.absence() != null) attempts = attempts.withAbsence(found.absence());
    if (found.foreignRevision() != null)
      held = held.withLicence(held.licence().withRevision(found.foreignRevision() + 1));
  }

  private void save() {
    try {
      withTimeout(
          () -> {
            options.store.update(this::changed);
            return null;
          });
      storeWorks = true;
      record(attempts().withProblem(Operation.STORE, null, time()));
    } catch (Exception failed) {
      storeWorks = false;
      recordProblem(Operation.STORE, Reasons.STORE_FAILED, failed);
    }
  }

  /** The text that replaces a text of the store. */
  private String changed(String text) {
    synchronized (storeLock) {
      absorb(text);
      // The store now belongs to another product or machine, which was activated later.
      if (text != null && foreignRevision != null && foreignRevision > held().licence().revision())
        return text;
      nonceForFile();
      foreignRevision = null;
      storeText = StoredRecord.write(held(), identity);
      return storeText;
    }
  }

  private void recordProblem(Operation operation, String code, Throwable failed) {
    record(attempts().withProblem(operation, new Trouble(code, String.valueOf(failed)), time()));
  }

  /** Waits for work that may hang. */
  private <T> T withTimeout(Callable<T> work) throws Exception {
    Future<T> outcome = helpers.submit(work);
    try {
      return outcome.get(options.timeout.toMillis(), TimeUnit.MILLISECONDS);
    } catch (TimeoutException late) {
      throw new TimeoutException("timed out after " + options.timeout.toMillis() + " ms");
    } catch (ExecutionException failed) {
      throw failed.getCause() instanceof Exception cause ? cause : failed;
    } finally {
      outcome.cancel(true);
    }
  }

  private void notifyListeners() {
    LicenceState state;
    Object next;
    synchronized (this) {
      state = state();
      // A change of a problem counts only if its code has changed.
      String code = state.problem() == null ? "" : state.problem().code();
      next = List.of(LicenceState.of(held, attempts.withProblem(null)), code);
    }
    if (next.equals(notifiedState) || stopped.isDone()) return;
    notifiedState = next;
    for (Consumer<LicenceState> listener : listeners) {
      try {
        listener.accept(state);
      } catch (Throwable failed) {
        // An error of a listener does not affect the licence.
      }
    }
  }

  private synchronized DueTimes dueTimes() {
    time();
    return DueTimes.of(held, attempts, request != null, jitter);
  }

  private CompletableFuture<?> runDueTasks() {
    CompletableFuture<?> checked = CompletableFuture.completedFuture(null);
    if (dueTimes().isListDue()) checked = run("check", calls::check);
    return checked.thenCompose(done -> renew()).thenRun(this::notifyListeners);
  }

  private CompletableFuture<?> renew() {
    Supplier<CompletableFuture<LicenceState>> again = request;
    // Read again: meanwhile the product may have released or freed its place.
    if (!dueTimes().isTokenDue()) return CompletableFuture.completedFuture(null);
    if (held().token() != null) return run("refresh", calls::refresh);
    return again == null ? CompletableFuture.completedFuture(null) : again.get();
  }
}
