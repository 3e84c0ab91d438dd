package licensing;

import java.net.http.HttpClient;
import java.security.SecureRandom;
import java.time.Clock;
import java.time.Duration;
import java.time.Instant;
import java.time.InstantSource;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.function.Consumer;
import java.util.function.Supplier;

/**
 * The licence of one installation of a product.
 *
 * <p>Only {@link Builder#build} throws, if the root key is missing or malformed. {@link
 * #hasFeature} and {@link #limit} return at once, from the verified token. The other calls wait for
 * the timeout or little more, and each has a form that returns a future instead. All methods may be
 * called by several threads. The first call reads the store and, unless {@code background} is
 * false, starts a timer. The threads of a client do not keep the process alive.
 *
 * <pre>{@code
 * LicenceClient licence =
 *     LicenceClient.builder()
 *         .baseUrl("https://licensing.example.com")
 *         .appId("app_01k…")
 *         .rootKey("lrk_…")
 *         .licenceKey("7ZK2M-…")
 *         .fingerprint(MachineFingerprint.of("app_01k…"))
 *         .host("build-7.example.com")
 *         .productVersion("4.2.0")
 *         .store(new FileStore(Path.of("/var/lib/acme/licence.json")))
 *         .build();
 * licence.activate();
 * if (licence.hasFeature("export_pdf")) enableExport();
 * }</pre>
 */
public final class LicenceClient implements AutoCloseable {
  private final Session session;
  private final Calls calls;

  private LicenceClient(Builder options) {
    RootKeys rootKeys = RootKeys.read(options.rootKeys);
    Identity identity =
        new Identity(options.appId, options.fingerprint, options.licenceKey, rootKeys);
    session = new Session(options, identity);
    calls = session.calls();
  }

  /**
   * A client with these options; {@code baseUrl}, {@code appId}, {@code rootKey} and {@code
   * fingerprint} are required.
   */
  public static Builder builder() {
    return new Builder();
  }

  /**
   * The current state. Nothing is granted before the store is read: call {@link #ready} or {@link
   * #activate} first.
   */
  public LicenceState state() {
    return session.state();
  }

  /**
   * The licence key in use: the given one, or the one from the store or a migration; null if there
   * is none.
   */
  public String licenceKey() {
    return session.held().licence().key();
  }

  /** Reads the store and verifies its content, without the network. */
  public LicenceState ready() {
    return await(readyAsync());
  }

  /** {@link #ready} without waiting. */
  public CompletableFuture<LicenceState> readyAsync() {
    return run("ready", () -> {});
  }

  /**
   * Activates the product: call it at every start. If the store has a valid token, it returns
   * without the network; otherwise it activates the licence key on this machine. If the service
   * cannot be reached, the background retries.
   */
  public LicenceState activate() {
    return await(activateAsync());
  }

  /** {@link #activate} without waiting. */
  public CompletableFuture<LicenceState> activateAsync() {
    return request("activate", calls::activate, this::activateAsync);
  }

  /**
   * Starts a trial, or continues it: call it instead of {@code activate} at each start of a product
   * that has no licence key. Each machine has one trial of a product, permanently. The store keeps
   * the licence key of the trial. If the client has a licence key, that key is activated.
   *
   * @param planCode the code of a plan with {@code trial_days}
   * @return the state; after the trial refused with the reason {@code expired} or {@code
   *     trial_used}
   */
  public LicenceState startTrial(String planCode) {
    return await(startTrialAsync(planCode));
  }

  /** {@link #startTrial} without waiting. */
  public CompletableFuture<LicenceState> startTrialAsync(String planCode) {
    Runnable call = () -> calls.startTrial(planCode);
    return request("startTrial " + planCode, call, () -> startTrialAsync(planCode));
  }

  /**
   * Exchanges a key of the vendor's former system for a licence key, stores that, and activates it.
   * Can be called at every start: a key is exchanged once.
   *
   * @param legacyKey the former key, as the vendor imported it
   */
  public LicenceState migrate(String legacyKey) {
    return await(migrateAsync(legacyKey));
  }

  /** {@link #migrate} without waiting. */
  public CompletableFuture<LicenceState> migrateAsync(String legacyKey) {
    Runnable call = () -> calls.migrate(legacyKey);
    return request("migrate " + legacyKey, call, () -> migrateAsync(legacyKey));
  }

  /**
   * Renews the token now. The background does this at half of the token's life. The valid token of
   * a licence file is not renewed, because a token of the service is shorter.
   *
   * @return the state; after a refusal ({@code suspended}, {@code expired}, …) a valid token still
   *     counts until its end
   */
  public LicenceState refresh() {
    return await(refreshAsync());
  }

  /** {@link #refresh} without waiting. */
  public CompletableFuture<LicenceState> refreshAsync() {
    return run("refresh", calls::refresh);
  }

  /**
   * Checks the revocation list now. The background does this within the check interval of the
   * token.
   *
   * @return the state: refused with the reason {@code revoked} if the list has this licence
   */
  public LicenceState check() {
    return await(checkAsync());
  }

  /** {@link #check} without waiting. */
  public CompletableFuture<LicenceState> checkAsync() {
    return run("check", calls::check);
  }

  /**
   * Ends the lease of a floating licence, so that another installation can use it at once: call it
   * when the product ends. The activation stays, and {@code activate} takes a lease again. Without
   * it the lease ends by itself. If several processes share the store, they share the lease: call
   * it when the last one ends. On any other licence it changes nothing.
   */
  public LicenceState release() {
    return await(releaseAsync());
  }

  /** {@link #release} without waiting. */
  public CompletableFuture<LicenceState> releaseAsync() {
    return run("release", () -> free(calls::release));
  }

  /**
   * Frees the activation of this machine, so that the licence can be used on another one. If the
   * service cannot be reached, nothing changes and the state's problem says so: try again.
   */
  public LicenceState deactivate() {
    return await(deactivateAsync());
  }

  /** {@link #deactivate} without waiting. */
  public CompletableFuture<LicenceState> deactivateAsync() {
    return run("deactivate", () -> free(calls::deactivate));
  }

  /**
   * Reports to the vendor that this installation is in use, with its host and version. A refresh
   * reports it too.
   */
  public LicenceState callHome() {
    return await(callHomeAsync());
  }

  /** {@link #callHome} without waiting. */
  public CompletableFuture<LicenceState> callHomeAsync() {
    return run("callHome", calls::callHome);
  }

  /**
   * A request for a licence file, for a machine without a network: JSON text, the body of {@code
   * POST …/offline-activations} without {@code days}. It contains the licence key if it is known.
   * If the clock was ahead and the licence has therefore ended, the request has a nonce, and time
   * counts from the current clock once the file is read.
   */
  public String createOfflineRequest() {
    String nonce = session.nonceForFile();
    // The file may be read after a restart, so the store must have the nonce.
    if (nonce != null) readyAsync();
    Map<String, Object> request = new LinkedHashMap<>();
    if (licenceKey() != null) request.put("licence_key", licenceKey());
    request.put("fingerprint", session.identity().fingerprint());
    request.put("host", session.host());
    request.put("product_version", session.productVersion());
    if (nonce != null) request.put("nonce", nonce);
    return Json.write(request);
  }

  /**
   * Reads a licence file from the vendor, without the network, and keeps it in the store. A file
   * that is refused changes nothing, and the state says why. It needs a root key.
   *
   * @param file the text of the file
   */
  public LicenceState activateOffline(String file) {
    return await(activateOfflineAsync(file));
  }

  /** {@link #activateOffline} without waiting. */
  public CompletableFuture<LicenceState> activateOfflineAsync(String file) {
    return run("activateOffline " + file, () -> calls.activateOffline(file));
  }

  /**
   * Whether a feature is granted now. Returns at once; false for a key that does not exist. If the
   * token has ended while the machine slept, the background renews it at once: {@link #onChange}
   * reports that.
   *
   * @param key the entitlement key
   */
  public boolean hasFeature(String key) {
    TokenClaims claims = session.usableClaims();
    return claims != null && claims.feature(key);
  }

  /**
   * The current value of a limit: an integer; 0 if nothing is granted or the key does not exist.
   *
   * @param key the entitlement key
   */
  public long limit(String key) {
    TokenClaims claims = session.usableClaims();
    return claims == null ? 0 : claims.limit(key);
  }

  /**
   * Whether the licence includes updates to a release: false if its updates ended before, else
   * true. It says nothing about whether the product is licensed at all: see {@link #state}.
   *
   * @param releasedAt when the release was published
   */
  public boolean covers(Instant releasedAt) {
    session.start();
    TokenClaims claims = session.held().claims();
    Long until = claims == null ? null : claims.updatesUntil();
    return until == null || releasedAt == null || !Instant.ofEpochMilli(until).isBefore(releasedAt);
  }

  /**
   * {@link #covers(Instant)} for a time in ISO 8601.
   *
   * @param releasedAt {@code 2026-11-01} or {@code 2026-11-01T10:00:00Z}, in UTC if it names no
   *     zone; true for any other text
   */
  public boolean covers(String releasedAt) {
    Long time = Times.parseIso(releasedAt);
    return covers(time == null ? null : Instant.ofEpochMilli(time));
  }

  /**
   * Calls a listener after each change of status, reason, token or revocation. The thread of the
   * client calls it, so it should return soon. If it calls the client, or if a stage that depends
   * on a future of the client does so in that thread, that call returns the state without waiting;
   * its outcome is reported as another change.
   *
   * @return removes the listener
   */
  public Runnable onChange(Consumer<LicenceState> listener) {
    return session.listen(listener);
  }

  /**
   * Ends the background work and calls that are running. {@code hasFeature} and {@code limit} still
   * use the current token; other calls return the state without the network.
   */
  @Override
  public void close() {
    session.stop();
  }

  /** A call that asks for a licence: the background repeats it. */
  private CompletableFuture<LicenceState> request(
      String name, Runnable call, Supplier<CompletableFuture<LicenceState>> again) {
    return run(
        name,
        () -> {
          session.setRequest(again);
          call.run();
        });
  }

  private void free(Runnable call) {
    call.run();
    if (session.held().token() == null) session.setRequest(null);
  }

  /** A copy, so that a caller who cancels the future does not end the call of another one. */
  private CompletableFuture<LicenceState> run(String name, Runnable work) {
    return session.run(name, work).copy();
  }

  private LicenceState await(CompletableFuture<LicenceState> outcome) {
    return session.isWorker() ? state() : outcome.join();
  }

  /** The options of a client. */
  public static final class Builder implements Cloneable {
    private static final SecureRandom RANDOM = new SecureRandom();

    /** A longer one would not fit into nanoseconds. */
    private static final Duration MAX_TIMEOUT = Duration.ofDays(1);

    String baseUrl = "";
    String appId = "";
    List<String> rootKeys = List.of();
    String licenceKey;
    String fingerprint = "";
    String host = "";
    String productVersion = "";
    LicenceStore store = LicenceStore.inMemory();
    HttpClient httpClient;
    InstantSource clock = Clock.systemUTC();
    Supplier<String> nonce = Builder::randomNonce;
    Duration timeout = Duration.ofSeconds(5);
    boolean background = true;

    private Builder() {}

    private static String randomNonce() {
      byte[] bytes = new byte[16];
      RANDOM.nextBytes(bytes);
      return HexFormat.of().formatHex(bytes);
    }

    /** Address of the licensing service: {@code https://licensing.example.com}. */
    public Builder baseUrl(String address) {
      baseUrl = Objects.requireNonNullElse(address, "");
      return this;
    }

    /** The application's id, {@code app_…}. */
    public Builder appId(String id) {
      appId = Objects.requireNonNullElse(id, "");
      return this;
    }

    /**
     * The application's root key, {@code lrk_…}, or several while one is being replaced. Compile it
     * into the product; do not read it from a file. A signing key is trusted only if one of these
     * root keys has signed it. {@code "unpinned"} trusts every key, also one that somebody wrote
     * into the store.
     */
    public Builder rootKey(String... keys) {
      rootKeys = keys == null ? List.of() : Arrays.asList(keys.clone());
      return this;
    }

    /**
     * The customer's licence key. Not needed if the store has one, or if a legacy key is migrated.
     */
    public Builder licenceKey(String key) {
      licenceKey = key;
      return this;
    }

    /**
     * Identifies this machine, 1 to 128 characters, the same at every start: see {@link
     * MachineFingerprint}.
     */
    public Builder fingerprint(String text) {
      fingerprint = Objects.requireNonNullElse(text, "");
      return this;
    }

    /**
     * The name of the machine, or the domain that the product serves: any text of 1 to 253
     * characters without control characters. A licence can be restricted to domains.
     */
    public Builder host(String name) {
      host = Objects.requireNonNullElse(name, "");
      return this;
    }

    /** The product's version, 1 to 128 characters. */
    public Builder productVersion(String version) {
      productVersion = Objects.requireNonNullElse(version, "");
      return this;
    }

    /** Keeps the licence over restarts. Default: memory, which keeps nothing. */
    public Builder store(LicenceStore keeper) {
      store = Objects.requireNonNullElseGet(keeper, LicenceStore::inMemory);
      return this;
    }

    /**
     * Sends requests, and must not follow redirects. Default: a client that uses the proxy of the
     * system properties.
     */
    public Builder httpClient(HttpClient client) {
      httpClient = client;
      return this;
    }

    /** The local clock. Default: that of the system. */
    public Builder clock(InstantSource source) {
      clock = Objects.requireNonNullElseGet(source, Clock::systemUTC);
      return this;
    }

    /** For tests: creates the nonce of a request, which its token repeats. Default: random. */
    public Builder nonce(Supplier<String> source) {
      nonce = Objects.requireNonNullElse(source, nonce);
      return this;
    }

    /** Timeout of each call. Default: 5 seconds. */
    public Builder timeout(Duration limit) {
      if (limit != null) timeout = limit.compareTo(MAX_TIMEOUT) < 0 ? limit : MAX_TIMEOUT;
      return this;
    }

    /** Whether the client checks and refreshes by itself between calls. Default: true. */
    public Builder background(boolean isWanted) {
      background = isWanted;
      return this;
    }

    /**
     * Creates the client.
     *
     * @throws IllegalArgumentException if the root key is missing or malformed
     */
    public LicenceClient build() {
      return new LicenceClient(copy());
    }

    /** Later changes of this builder do not change the client. */
    private Builder copy() {
      try {
        return (Builder) clone();
      } catch (CloneNotSupportedException impossible) {
        throw new AssertionError(impossible);
      }
    }
  }
}
