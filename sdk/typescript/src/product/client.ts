/// <reference lib="esnext.disposable" preserve="true" />
import { activate, activateOffline, callHome, check, deactivate } from './calls.ts'
import { migrate, refresh, release, startTrial } from './calls.ts'
import { tokenOf } from './held.ts'
import { Session, type LicenceListener } from './session.ts'
import { connect } from './service.ts'
import type { LicenceState } from './state.ts'
import { readTimestamp } from './shape.ts'
import { memoryStore, type LicenceStore } from './store.ts'
import { featureOf, limitOf, readTrust } from './trust.ts'

export interface LicenceClientOptions {
  /** Address of the licensing service: `https://licensing.example.com`. */
  readonly baseUrl: string
  /** The application's id, `app_…`. */
  readonly appId: string
  /**
   * The application's root key, `lrk_…`, or several while one is being replaced. Compile it into the product; do not read
   * it from a file. A signing key is trusted only if one of these root keys has signed it. `'unpinned'` trusts every
   * key, also one that somebody wrote into the store: see the README.
   */
  readonly rootKey: string | readonly string[]
  /** The customer's licence key. Not needed if the store has one, or if a legacy key is migrated. */
  readonly licenceKey?: string | undefined
  /** Identifies this machine, 1 to 128 characters, the same at every start: see `machineFingerprint`. */
  readonly fingerprint: string
  /**
   * The name of the machine, or the domain that the product serves: any text of 1 to 253 characters without control characters. A
   * licence can be restricted to domains.
   */
  readonly host: string
  /** The product's version, 1 to 128 characters. */
  readonly productVersion: string
  /** Keeps the licence over restarts. Default: memory, which keeps nothing. */
  readonly store?: LicenceStore | undefined
  /** Sends requests. Default: the global `fetch`. */
  readonly fetch?: typeof fetch | undefined
  /** The local clock in milliseconds since 1970 UTC. Default: `Date.now`. */
  readonly clock?: (() => number) | undefined
  /** For tests: creates the nonce of a request, which its token repeats. Default: random. */
  readonly nonce?: (() => string) | undefined
  /** Timeout of each call in milliseconds. Default: 5,000. */
  readonly timeoutMs?: number | undefined
  /** Whether the client checks and refreshes by itself between calls. Default: true. */
  readonly background?: boolean | undefined
}

/**
 * The licence of one installation of a product.
 *
 * Only the constructor throws, if `rootKey` is missing or malformed. `hasFeature` and `limit` return at once, from the
 * verified token. The first call reads the store and, unless `background` is false, starts a timer, which does not keep
 * the process alive.
 *
 * @example
 * const licence = new LicenceClient({
 *   baseUrl: 'https://licensing.example.com',
 *   appId: 'app_01k…',
 *   rootKey: 'lrk_…',
 *   licenceKey: '7ZK2M-…',
 *   fingerprint: await machineFingerprint({ appId: 'app_01k…' }),
 *   host: 'build-7.example.com',
 *   productVersion: '4.2.0',
 *   store: fileStore('/var/lib/acme/licence.json'),
 * })
 * await licence.activate()
 * if (licence.hasFeature('export_pdf')) enableExport()
 */
export class LicenceClient {
  readonly #session: Session

  /** @throws TypeError if `rootKey` is missing or malformed */
  constructor(options: LicenceClientOptions) {
    const { appId, fingerprint, host, productVersion, licenceKey = null } = options
    const send: typeof fetch = options.fetch ?? ((...request) => globalThis.fetch(...request))
    this.#session = new Session({
      identity: { appId, fingerprint, licenceKey, trust: readTrust(options.rootKey) },
      product: { host, productVersion },
      ask: connect(options.baseUrl, send),
      clock: safeClock(options.clock ?? Date.now),
      newNonce: options.nonce ?? randomNonce,
      store: options.store ?? memoryStore(),
      timeoutMs: options.timeoutMs ?? 5000,
      background: options.background !== false,
    })
  }

  /**
   * The current state. Nothing is granted before the store is read: await `ready` or `activate` first.
   *
   * @example if (licence.state.status === 'grace') warn(`licence ends ${licence.state.expiresAt}`)
   */
  get state(): LicenceState {
    return this.#session.state
  }

  /** The licence key in use: the given one, or the one from the store or a migration; null if there is none. */
  get licenceKey(): string | null {
    return this.#session.held.licence.key
  }

  /**
   * Reads the store and verifies its content, without the network.
   *
   * @example const { usable } = await licence.ready()
   */
  ready(): Promise<LicenceState> {
    return this.#session.run('ready', async () => {})
  }

  /**
   * Activates the product: call it at every start. If the store has a valid token, it returns without the network;
   * otherwise it activates the licence key on this machine. If the service cannot be reached, the background retries.
   *
   * @returns the state, after `timeoutMs` or little more; never rejects
   * @example
   * const { usable, reason } = await licence.activate()
   * if (!usable) showLicencePage(reason)
   */
  activate(): Promise<LicenceState> {
    return this.#session.run('activate', () => {
      this.#session.request = () => this.activate()
      return activate(this.#session)
    })
  }

  /**
   * Starts a trial, or continues it: call it instead of `activate` at each start of a product that has no licence key. Each
   * machine has one trial of a product, permanently. The store keeps the licence key of the trial. If the client has
   * a licence key, that key is activated.
   *
   * @param planCode the code of a plan with `trial_days`
   * @returns the state; after the trial `refused` with the reason `expired` or `trial_used`
   * @example
   * const { usable, reason } = await licence.startTrial('pro')
   * if (reason === 'trial_used') showOrderPage()
   */
  startTrial(planCode: string): Promise<LicenceState> {
    return this.#session.run(`startTrial ${planCode}`, () => {
      this.#session.request = () => this.startTrial(planCode)
      return startTrial(this.#session, planCode)
    })
  }

  /**
   * A request for a licence file, for a machine without a network: JSON text, the body of `POST …/offline-activations`
   * without `days`. It contains the licence key if it is known. If the clock was ahead and the licence has therefore
   * ended, the request has a nonce, and time counts from the current clock once the file is read.
   *
   * @example showForCopying(licence.createOfflineRequest())
   */
  createOfflineRequest(): string {
    const { identity, product, held } = this.#session
    const licenceKey = held.licence.key
    const nonce = this.#session.nonceForFile()
    // The file may be read after a restart, so the store must have the nonce.
    if (nonce !== null) void this.ready()
    return JSON.stringify({
      ...(licenceKey !== null && { licence_key: licenceKey }),
      fingerprint: identity.fingerprint,
      host: product.host,
      product_version: product.productVersion,
      ...(nonce !== null && { nonce }),
    })
  }

  /**
   * Reads a licence file from the vendor, without the network, and keeps it in the store. A file that is refused changes
   * nothing, and `state` says why. It needs a `rootKey`.
   *
   * @param file the text of the file
   * @example
   * const { usable, reason } = await licence.activateOffline(await readFile(path, 'utf8'))
   */
  activateOffline(file: string): Promise<LicenceState> {
    return this.#session.run(`activateOffline ${file}`, () => activateOffline(this.#session, file))
  }

  /**
   * Renews the token now. The background does this at half of the token's life. The valid token of a licence file is not
   * renewed, because a token of the service is shorter.
   *
   * @returns the state; after a refusal (`suspended`, `expired`, …) a valid token still counts until its end
   * @example const { expiresAt } = await licence.refresh()
   */
  refresh(): Promise<LicenceState> {
    return this.#session.run('refresh', () => refresh(this.#session))
  }

  /**
   * Checks the revocation list now. The background does this within the check interval of the token.
   *
   * @returns the state: `refused` with the reason `revoked` if the list has this licence
   * @example const { revocations } = await licence.check()
   */
  check(): Promise<LicenceState> {
    return this.#session.run('check', () => check(this.#session))
  }

  /**
   * Whether a feature is granted now. Returns at once; false for a key that does not exist. If the token has ended while the
   * machine slept, the background renews it at once: `onChange` reports that.
   *
   * @param key the entitlement key
   * @example if (licence.hasFeature('export_pdf')) enableExport()
   */
  hasFeature(key: string): boolean {
    const claims = this.#usableClaims()
    return claims !== null && featureOf(claims, key)
  }

  /**
   * The current value of a limit: an integer; 0 if nothing is granted or the key does not exist.
   *
   * @param key the entitlement key
   * @example if (projects.length >= licence.limit('max_projects')) offerUpgrade()
   */
  limit(key: string): number {
    const claims = this.#usableClaims()
    return claims === null ? 0 : limitOf(claims, key)
  }

  /**
   * Whether the licence includes updates to a release: false if its updates ended before, else true. It says nothing about
   * whether the product is licensed at all: see `state`.
   *
   * @param releasedAt when the release was published; a text is ISO 8601, in UTC if it names no zone. True for any other text
   * @example if (!licence.covers('2026-11-01T00:00:00Z')) offerRenewal()
   */
  covers(releasedAt: Date | string): boolean {
    if (!this.#session.started) void this.ready()
    const until = tokenOf(this.#session.held)?.claims.updatesUntil ?? null
    const released = typeof releasedAt === 'string' ? readTimestamp(releasedAt) : releasedAt.getTime()
    return until === null || !(until < released)
  }

  /**
   * Exchanges a key of the vendor's former system for a licence key, stores that, and activates it. Can be called at
   * every start: a key is exchanged once.
   *
   * @param legacyKey the former key, as the vendor imported it
   * @example const { usable } = await licence.migrateAsync('OLD-1234')
   */
  migrateAsync(legacyKey: string): Promise<LicenceState> {
    return this.#session.run(`migrate ${legacyKey}`, () => {
      this.#session.request = () => this.migrateAsync(legacyKey)
      return migrate(this.#session, legacyKey)
    })
  }

  /**
   * Frees the activation of this machine, so that the licence can be used on another one. If the service cannot be
   * reached, nothing changes and `state.problem` says so: try again.
   *
   * @example const { reason } = await licence.deactivate() // 'deactivated'
   */
  deactivate(): Promise<LicenceState> {
    return this.#session.run('deactivate', async () => {
      await deactivate(this.#session)
      if (!tokenOf(this.#session.held)) this.#session.request = null
    })
  }

  /**
   * Ends the lease of a floating licence, so that another installation can use it at once: call it when the product ends. The
   * activation stays, and `activate` takes a lease again. Without it the lease ends by itself. If several processes share
   * the store, they share the lease: call it when the last one ends. On any other licence it changes nothing.
   *
   * @example await licence.release()
   */
  release(): Promise<LicenceState> {
    return this.#session.run('release', async () => {
      await release(this.#session)
      if (!tokenOf(this.#session.held)) this.#session.request = null
    })
  }

  /**
   * Reports to the vendor that this installation is in use, with its host and version. A refresh reports it too.
   *
   * @example await licence.callHome()
   */
  callHome(): Promise<LicenceState> {
    return this.#session.run('callHome', () => callHome(this.#session))
  }

  /**
   * Calls `listener` after each change of status, reason, token or revocation.
   *
   * @returns a function that removes the listener
   * @example const end = licence.onChange(({ status }) => render(status))
   */
  onChange(listener: LicenceListener): () => void {
    return this.#session.listen(listener)
  }

  /**
   * Ends the background work and calls that are running. `hasFeature` and `limit` still use the current token; other
   * calls resolve to the state without the network.
   *
   * @example licence.stop()
   */
  stop(): void {
    this.#session.stop()
  }

  /** The same as `stop`, for `using licence = new LicenceClient(…)`. */
  [Symbol.dispose](): void {
    this.stop()
  }

  #usableClaims() {
    // The first call starts the client, and is answered at once, from the token that is known at that moment.
    if (!this.#session.started) void this.ready()
    if (this.state.usable) return tokenOf(this.#session.held)?.claims ?? null
    this.#session.wake()
    return null
  }
}

function randomNonce(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16))
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('')
}

/** A clock that throws or returns no time must not stop the product. */
function safeClock(clock: () => number): () => number {
  return () => {
    try {
      const now: unknown = clock()
      return typeof now === 'number' && Math.abs(now) <= 8.64e15 ? now : Date.now()
    } catch {
      return Date.now()
    }
  }
}
