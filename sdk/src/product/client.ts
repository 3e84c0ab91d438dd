/// <reference lib="esnext.disposable" preserve="true" />
import {
  activateOffline,
  activate,
  callHome,
  deactivate,
  migrate,
  refresh,
  release,
  startTrial,
} from './activation.ts'
import { checkRevocations } from './check-revocations.ts'
import { Contact } from './contact.ts'
import { Installation } from './installation.ts'
import { readTrust } from './root-key.ts'
import { Session, type LicenceListener } from './session.ts'
import { connect } from './service.ts'
import { grants, type LicenceState } from './state.ts'
import { memoryStore, type LicenceStore } from './store.ts'
import { featureOf, limitOf } from './token.ts'

export interface LicenceClientOptions {
  /** Where the licensing service is: `https://licensing.example.com`. */
  readonly baseUrl: string
  /** The application's id, `app_…`. */
  readonly appId: string
  /**
   * The application's root key, `lrk_…`, or several while one is being replaced: compiled into the product, not read
   * from a file beside it. Keys are believed only where one of these vouches for them, wherever they come from.
   * `'unpinned'` believes whatever keys come, also those that somebody wrote into the store: see the README.
   */
  readonly rootKey: string | readonly string[]
  /** The customer's licence key. May be left out where the store remembers one, or a legacy key is migrated. */
  readonly licenceKey?: string | undefined
  /** What tells this machine from others, 1 to 128 characters, the same at every start: see `machineFingerprint`. */
  readonly fingerprint: string
  /** The host name the product runs on or under; a licence may be bound to domains. */
  readonly host: string
  /** The product's version, 1 to 128 characters. */
  readonly productVersion: string
  /** What survives a restart: memory (nothing does) unless given. */
  readonly store?: LicenceStore | undefined
  /** Sends requests: the global `fetch` unless given. */
  readonly fetch?: typeof fetch | undefined
  /** The local clock, milliseconds since 1970 UTC: `Date.now` unless given. */
  readonly clock?: (() => number) | undefined
  /** Makes the text that ties a token to the request that it answers: random unless given. For tests. */
  readonly nonce?: (() => string) | undefined
  /** How long any one call may wait for the service, in milliseconds: 5000 unless given. */
  readonly timeoutMs?: number | undefined
  /** Whether the client checks and refreshes by itself between calls: true unless given. */
  readonly background?: boolean | undefined
}

/**
 * The licence of one installation of a product.
 *
 * Nothing in it throws or rejects but the constructor, where `rootKey` is missing or malformed; `hasFeature` and `limit` answer at once from the verified token that is held.
 * Constructing it does no work; the first call reads the store and, unless `background` is false, starts a timer that
 * never keeps a process alive.
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
  readonly #installation: Installation
  readonly #contact: Contact
  readonly #session: Session
  /** How the product asked to be licensed last: the background tries it again. */
  #start = () => this.activate()

  /** @throws TypeError if `rootKey` is missing or malformed */
  constructor(options: LicenceClientOptions) {
    const { appId, fingerprint, host, productVersion } = options
    const trust = readTrust(options.rootKey)
    const identity = { appId, fingerprint, licenceKey: options.licenceKey ?? null, trust }
    const send: typeof fetch = options.fetch ?? ((...request) => globalThis.fetch(...request))
    const newNonce = options.nonce ?? randomNonce
    this.#installation = new Installation(identity, soundClock(options.clock ?? Date.now), newNonce)
    const product = { appId, fingerprint, host, productVersion }
    this.#contact = new Contact(this.#installation, product, connect(options.baseUrl, send), Math.random)
    const renew = () => (this.#installation.token ? this.refresh() : this.#start())
    this.#session = new Session({
      contact: this.#contact,
      store: options.store ?? memoryStore(),
      timeoutMs: options.timeoutMs ?? 5000,
      chores: options.background === false ? null : { check: () => this.check(), renew },
    })
  }

  /**
   * The state now. Nothing is granted before the store has been read: await `ready` or `activate` first.
   *
   * @example if (licence.state.status === 'grace') warn(`licence ends ${licence.state.expiresAt}`)
   */
  get state(): LicenceState {
    return this.#installation.state()
  }

  /** The licence key in use: the one given, or the one remembered or migrated to; null when there is none. */
  get licenceKey(): string | null {
    return this.#installation.licenceKey
  }

  /**
   * Reads the store and verifies what it held, without the network.
   *
   * @example const { usable } = await licence.ready()
   */
  ready(): Promise<LicenceState> {
    return this.#session.run('ready', async () => {})
  }

  /**
   * Makes the product licensed: call it at every start. A good token from the store answers without the network;
   * else the licence key is activated on this machine. If the service cannot be reached the background goes on
   * trying.
   *
   * @returns the state, within `timeoutMs` or little more; never rejects
   * @example
   * const { usable, reason } = await licence.activate()
   * if (!usable) showLicencePage(reason)
   */
  activate(): Promise<LicenceState> {
    this.#start = () => this.activate()
    return this.#session.run('activate', async (signal) => {
      this.#session.wanted = true
      if (this.#usable() || this.#installation.revoked) return
      const renewable = this.#installation.token && this.#installation.licenceKey === null
      await (renewable ? refresh : activate)(this.#contact, signal)
    })
  }

  /**
   * Makes the product licensed by a trial: instead of `activate`, at each start of a product that has no licence key. Each
   * machine has one trial of a product, permanently. The trial has a licence key, which the store keeps: if the client has a
   * licence key, that is activated.
   *
   * @param planCode the code of a plan with `trial_days`
   * @returns the state; after the trial `refused` with the reason `expired` or `trial_used`
   * @example
   * const { usable, reason } = await licence.startTrial('pro')
   * if (reason === 'trial_used') showOrderPage()
   */
  startTrial(planCode: string): Promise<LicenceState> {
    this.#start = () => this.startTrial(planCode)
    return this.#session.run(`startTrial ${planCode}`, async (signal) => {
      this.#session.wanted = true
      if (this.#usable() || this.#installation.revoked) return
      await startTrial(this.#contact, planCode, signal)
    })
  }

  /**
   * What a machine without a network asks the vendor with: JSON text, the body of `POST …/offline-activations` but for
   * `days`. The licence key is in it once it is known. After the clock was ahead and the licence has ended by it, the
   * request carries a nonce, and the file that is made from it counts by the clock as it is now.
   *
   * @example showForCopying(licence.createOfflineRequest())
   */
  createOfflineRequest(): string {
    const { fingerprint, host, productVersion } = this.#contact.product
    const licenceKey = this.#installation.licenceKey
    const nonce = this.#installation.nonceForFile()
    // The file may come after a restart: the store has to know the nonce by then.
    if (nonce !== null) void this.ready()
    return JSON.stringify({
      ...(licenceKey !== null && { licence_key: licenceKey }),
      fingerprint,
      host,
      product_version: productVersion,
      ...(nonce !== null && { nonce }),
    })
  }

  /**
   * Makes the product licensed by the file that the vendor sent, without the network. It is kept in the store. A file that
   * is refused changes nothing, and `state` says why. It needs a `rootKey`.
   *
   * @param file the text as it came
   * @example
   * const { usable, reason } = await licence.activateOffline(await readFile(path, 'utf8'))
   */
  activateOffline(file: string): Promise<LicenceState> {
    return this.#session.run(`activateOffline ${file}`, () => activateOffline(this.#contact, file))
  }

  /**
   * Renews the token now. The background does so by itself at half of the token's life.
   *
   * Not while a good token of an offline file is held: the service's are shorter.
   *
   * @returns the state; a refusal (`suspended`, `expired`, …) leaves a good token in force until its end
   * @example const { expiresAt } = await licence.refresh()
   */
  refresh(): Promise<LicenceState> {
    return this.#session.run('refresh', (signal) => refresh(this.#contact, signal))
  }

  /**
   * Looks at the revocation list now. The background does so within the check interval that the token prescribes.
   *
   * @returns the state: `refused`, `revoked` where the list names this licence
   * @example const { revocations } = await licence.check()
   */
  check(): Promise<LicenceState> {
    return this.#session.run('check', (signal) => checkRevocations(this.#contact, signal))
  }

  /**
   * Whether a feature is granted now. Answers at once, also about a key that does not exist (false).
   *
   * @param key the entitlement key
   * @example if (licence.hasFeature('export_pdf')) enableExport()
   */
  hasFeature(key: string): boolean {
    const claims = this.#usableClaims()
    return claims !== null && featureOf(claims, key)
  }

  /**
   * A limit's value now: an integer, 0 if nothing is granted or the key does not exist.
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
   * @param releasedAt when the release was published; text that is no time is covered
   * @example if (!licence.covers('2026-11-01T00:00:00Z')) offerRenewal()
   */
  covers(releasedAt: Date | string): boolean {
    if (!this.#session.started) void this.ready()
    const until = this.#installation.token?.claims.updatesUntil ?? null
    return until === null || !(until < new Date(releasedAt).getTime())
  }

  /**
   * Exchanges a key of the vendor's former licensing for a licence key, remembers that, and activates with it. May be
   * called at every start: what has been exchanged is not asked for again.
   *
   * @param legacyKey the former key, as the vendor imported it
   * @example const { usable } = await licence.migrateAsync('OLD-1234')
   */
  migrateAsync(legacyKey: string): Promise<LicenceState> {
    this.#start = () => this.migrateAsync(legacyKey)
    return this.#session.run(`migrate ${legacyKey}`, async (signal) => {
      this.#session.wanted = true
      await migrate(this.#contact, legacyKey, signal)
    })
  }

  /**
   * Frees this machine's place, so that the licence can be used on another. If the service cannot be reached
   * nothing changes, and `state.problem` says so: try again.
   *
   * @example const { reason } = await licence.deactivate() // 'deactivated'
   */
  deactivate(): Promise<LicenceState> {
    return this.#session.run('deactivate', async (signal) => {
      await deactivate(this.#contact, signal)
      if (!this.#installation.token) this.#session.wanted = false
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
    return this.#session.run('release', async (signal) => {
      await release(this.#contact, signal)
      if (!this.#installation.token) this.#session.wanted = false
    })
  }

  /**
   * Tells the vendor that this installation is in use, with its host and version. Refreshing does so too.
   *
   * @example await licence.callHome()
   */
  callHome(): Promise<LicenceState> {
    return this.#session.run('callHome', (signal) => callHome(this.#contact, signal))
  }

  /**
   * Hears of every change of status, reason, token or revocation.
   *
   * @returns a function that ends it
   * @example const end = licence.onChange(({ status }) => render(status))
   */
  onChange(listener: LicenceListener): () => void {
    return this.#session.listen(listener)
  }

  /**
   * Ends the background work and what is in flight. `hasFeature` and `limit` go on answering from the token held;
   * other calls resolve to the state without contact.
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

  #usable(): boolean {
    return grants(this.#installation.judgement().status)
  }

  #usableClaims() {
    // The first question starts what has not been started; it is answered from what is known by then.
    if (!this.#session.started) void this.ready()
    return this.#usable() ? (this.#installation.token?.claims ?? null) : null
  }
}

function randomNonce(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16))
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('')
}

/** A clock that throws or tells no time must not stop the product. */
function soundClock(clock: () => number): () => number {
  return () => {
    try {
      const now: unknown = clock()
      return typeof now === 'number' && Math.abs(now) <= 8.64e15 ? now : Date.now()
    } catch {
      return Date.now()
    }
  }
}
