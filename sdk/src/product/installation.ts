import { HeldKeys } from './held-keys.ts'
import { HeldRevocations } from './held-revocations.ts'
import type { Acceptance, RevocationList } from './revocation-list.ts'
import {
  describe,
  judge,
  type AbsenceReason,
  type Evidence,
  type FailureReason,
  type FileRefusal,
  type Judgement,
  type LicenceState,
  type Problem,
  type RefusalReason,
} from './state.ts'
import { LatestProblem } from './latest-problem.ts'
import { readStoredLicence, type FormerActivation, type InstallationIdentity } from './stored-licence.ts'
import { parse, serialise, type StoredRecord } from './stored-record.ts'
import { TokenReader, type HeldToken, type Unreadable } from './token-reader.ts'
import { TrustedTime } from './trusted-time.ts'

/** All that this installation knows of its licence, and what each piece of news does to it. No network in it. */
export class Installation {
  readonly #identity: InstallationIdentity
  readonly #reader: TokenReader
  readonly #time: TrustedTime
  readonly #problem = new LatestProblem()
  #loaded = false
  #token: HeldToken | null = null
  #revocations = new HeldRevocations()
  #refusal: RefusalReason | null = null
  #failure: FailureReason | null = null
  #absence: AbsenceReason = 'not_activated'
  #licenceKey: string | null
  #legacyKey: string | null = null
  /** The activation that this machine held under another fingerprint: freed when its place is needed. */
  former: FormerActivation | null = null
  /** The keys that verify what the service signs. */
  readonly keys: HeldKeys

  constructor(identity: InstallationIdentity, now: () => number) {
    this.#identity = identity
    this.#time = new TrustedTime(now)
    this.keys = new HeldKeys(identity.trust, identity.appId)
    this.#reader = new TokenReader(identity, this.keys)
    this.#licenceKey = identity.licenceKey
  }

  get licenceKey(): string | null {
    return this.#licenceKey
  }

  get legacyKey(): string | null {
    return this.#legacyKey
  }

  get token(): HeldToken | null {
    return this.#token
  }

  /** The revocation list held; null before there is one. */
  get list(): HeldRevocations['list'] {
    return this.#revocations.list
  }

  get checkedAt(): number | null {
    return this.#revocations.checkedAt
  }

  /** An authentic list names the licence held: nothing the service could answer changes that. */
  get revoked(): boolean {
    return this.#revocations.namesLicence
  }

  get clockTurnedBack(): boolean {
    return this.#time.seen.turnedBack
  }

  /** The trusted time in milliseconds, after a look at the local clock. */
  time(): number {
    return this.#time.look()
  }

  /** A good token came in a file: only another file renews it, as the service gives shorter ones. */
  get isOfflineNow(): boolean {
    return this.#token !== null && this.#token.claims.offline && this.time() < this.#token.claims.expiresAt
  }

  /** The token held is past half of its life. */
  isTokenDue(): boolean {
    return this.#token !== null && this.time() >= this.#token.claims.refreshAfter
  }

  judgement(): Judgement {
    return judge(this.#evidence(), this.time())
  }

  state(): LicenceState {
    const interval = this.#token?.claims.checkIntervalMs ?? 0
    const freshness = this.#revocations.freshness(this.time(), interval)
    return describe(this.#evidence(), this.#time.seen, freshness, this.#problem.value)
  }

  /** Reads the store's text; null when it has none. */
  async load(text: string | null): Promise<void> {
    const record = text === null ? null : parse(text)
    if (text !== null && !record) this.#absence = 'store_corrupt'
    if (record && record.appId === this.#identity.appId) await this.#restore(record)
    this.#loaded = true
  }

  async #restore(record: StoredRecord): Promise<void> {
    await this.keys.restore(record)
    this.#time.resume(record.seen)
    const stored = await readStoredLicence(record, this.#identity, this.#reader, this.time())
    this.#absence = stored.absence ?? this.#absence
    if (stored.absence === 'licence_key_changed') return
    this.#licenceKey ??= record.licenceKey
    this.#legacyKey = record.legacyKey
    this.former = stored.former
    if (!stored.token) return
    this.#token = stored.token
    this.#time.notBefore(stored.token.claims.issuedAt)
    this.#refusal = record.refusal
    await this.#restoreLists(record)
  }

  async #restoreLists({ revocations }: StoredRecord): Promise<void> {
    if (!revocations) return
    for (const jws of [revocations.namedBy, revocations.list]) {
      // Also by keys past their end: what a list names stays revoked.
      const list = jws === null ? null : await this.#reader.readList(jws)
      if (jws === null || list === null || typeof list === 'string') continue
      this.#time.notBefore(list.issuedAt)
      this.#revocations.restore(list, jws, this.#names(list), revocations)
    }
    // A store may say that the list was looked at in the future.
    this.#revocations.timeWasSet(this.#time.seen.time)
  }

  /** The text for the store. */
  save(): string {
    this.time()
    return serialise({
      appId: this.#identity.appId,
      licenceKey: this.#licenceKey,
      legacyKey: this.#legacyKey,
      fingerprint: this.former?.fingerprint ?? this.#identity.fingerprint,
      token: (this.#token ?? this.former?.token)?.jws ?? null,
      refusal: this.#token && this.#refusal,
      ...this.keys.save(),
      fileKeys: (this.#token ?? this.former?.token)?.fileKeys?.jws ?? null,
      revocations: this.#revocations.save(this.#time.seen.time),
      seen: this.#time.seen,
    })
  }

  /** The token if it is authentic, of this application and for this machine; else why it is not. */
  readToken(jws: string): Promise<HeldToken | Unreadable> {
    return this.#reader.readToken(jws, this.time())
  }

  /** The list if it is authentic and of this application; else why it is not. */
  async readList(jws: string): Promise<RevocationList | Unreadable> {
    return this.keys.isExpired(this.time()) ? 'unknown_key' : this.#reader.readList(jws)
  }

  /** The token of an offline file, if a root key vouches for it and it is for this machine; else why it is refused. */
  readFile(text: unknown): Promise<HeldToken | FileRefusal> {
    return this.#reader.readFile(text, this.time(), this.#token?.claims ?? null)
  }

  /** A file was read. It may have been made long ago, and read before: it never sets the time back. */
  acceptFile(token: HeldToken): void {
    this.time()
    this.#time.notBefore(token.claims.issuedAt)
    this.#hold(token)
  }

  /** A file was refused: what is held stays. */
  refuseFile(reason: FileRefusal): void {
    if (this.#token) return
    this.#absence = reason
    this.#refusal = null
    this.#failure = null
  }

  /** A token came from the service. */
  accept(token: HeldToken): void {
    const signedBefore = Math.max(this.#token?.claims.issuedAt ?? 0, this.list?.issuedAt ?? 0)
    const { issuedAt } = token.claims
    this.time()
    if (issuedAt > signedBefore) this.#time.anchor(issuedAt)
    else this.#time.notBefore(issuedAt)
    this.#hold(token)
  }

  #hold(token: HeldToken): void {
    if (token.claims.licenceId !== this.#token?.claims.licenceId) this.#revocations = new HeldRevocations()
    this.#revocations.timeWasSet(this.#time.seen.time)
    this.#token = token
    this.former = null
    this.#refusal = null
    this.#failure = null
    this.#problem.forgetThoseAboutTokens()
  }

  /** The service said no. */
  refuse(reason: RefusalReason): void {
    this.#refusal = reason
    this.#failure = null
  }

  /** The service could not be asked. */
  fail(reason: FailureReason): void {
    this.#failure = reason
  }

  /** There is no licence key to activate with. */
  lacksKey(): void {
    this.#absence = 'no_licence_key'
  }

  /** The place was freed at the service's. */
  deactivated(): void {
    this.#token = null
    this.#refusal = null
    this.#failure = null
    this.#absence = 'deactivated'
    this.#revocations = new HeldRevocations()
    this.#problem.forgetThoseAboutTokens()
  }

  /** A legacy key was exchanged. */
  migrated(legacyKey: string, licenceKey: string): void {
    this.#legacyKey = legacyKey
    this.#licenceKey = licenceKey
    this.#refusal = null
  }

  /** An authentic revocation list came, in answer to a request with `since`. */
  learn(list: RevocationList, jws: string, etag: string | null, since: number | null): Acceptance {
    const from = { jws, etag, since, time: Math.max(this.time(), list.issuedAt) }
    const acceptance = this.#revocations.learn(list, this.#names(list), from)
    if (acceptance === 'accepted') this.#time.notBefore(list.issuedAt)
    return acceptance
  }

  /** The service confirmed that the list held is the latest. */
  confirmList(): void {
    this.#revocations.confirm(this.time())
  }

  /** Notes what went wrong; null when the operation went right. */
  note(operation: Problem['operation'], problem: { code: string; detail: string } | null): void {
    this.#problem.note(operation, problem, this.time())
  }

  #evidence(): Evidence {
    return {
      loaded: this.#loaded,
      claims: this.#token?.claims ?? null,
      revoked: this.revoked,
      refusal: this.#refusal,
      failure: this.#failure,
      absence: this.#absence,
    }
  }

  #names(list: RevocationList): boolean {
    return this.#token !== null && list.revoked.includes(this.#token.claims.licenceId)
  }
}
