import { TrustedKeys } from './trusted-keys.ts'
import { RevocationState } from './revocation-state.ts'
import type { Acceptance, RevocationList } from './revocation-list.ts'
import {
  describe,
  determineStatus,
  type AbsenceReason,
  type Evidence,
  type FailureReason,
  type FileRefusal,
  type StatusWithReason,
  type LicenceState,
  type Problem,
  type RefusalReason,
} from './state.ts'
import { LatestProblem } from './latest-problem.ts'
import { isUnixTime } from './shape.ts'
import { unverified } from './signature.ts'
import {
  isForeign,
  readStoredLicence,
  type FormerActivation,
  type InstallationIdentity,
  type StoredLicence,
} from './stored-licence.ts'
import { parse, serialise, type StoredRecord } from './stored-record.ts'
import { TokenReader, type VerifiedToken, type Unreadable } from './token-reader.ts'
import { TrustedTime } from './trusted-time.ts'

/** The data of this installation about its licence, and the changes that each answer makes to it. Does not use the network. */
export class Installation {
  readonly #identity: InstallationIdentity
  readonly #reader: TokenReader
  readonly #time: TrustedTime
  readonly #problem = new LatestProblem()
  #loaded = false
  #token: VerifiedToken | null = null
  #revocations = new RevocationState()
  #refusal: RefusalReason | null = null
  #failure: FailureReason | null = null
  #absence: AbsenceReason = 'not_activated'
  #licenceKey: string | null
  #legacyKey: string | null = null
  /** How often the token was replaced, by any process that shares the store. */
  #revision = 0
  /** The store now belongs to another machine or key, which was activated later. */
  #displaced = false
  #nonce: string | null = null
  readonly #newNonce: () => string
  /** The activation that this machine has under an earlier fingerprint: freed when its place is needed. */
  former: FormerActivation | null = null
  /** The keys that verify texts of the service. */
  readonly keys: TrustedKeys

  constructor(identity: InstallationIdentity, now: () => number, newNonce: () => string) {
    this.#identity = identity
    this.#newNonce = newNonce
    this.#time = new TrustedTime(now)
    this.keys = new TrustedKeys(identity.trust, identity.appId)
    this.#reader = new TokenReader(identity, this.keys)
    this.#licenceKey = identity.licenceKey
  }

  get licenceKey(): string | null {
    return this.#licenceKey
  }

  get legacyKey(): string | null {
    return this.#legacyKey
  }

  get token(): VerifiedToken | null {
    return this.#token
  }

  /** The token that the store keeps. */
  get #stored(): VerifiedToken | null {
    return this.#token ?? this.former?.token ?? null
  }

  /** The revocation list held; null before there is one. */
  get list(): RevocationState['list'] {
    return this.#revocations.list
  }

  get checkedAt(): number | null {
    return this.#revocations.checkedAt
  }

  /** Whether an authentic list names this licence. No later answer changes that. */
  get revoked(): boolean {
    return this.#revocations.namesLicence
  }

  get clockTurnedBack(): boolean {
    return this.#time.seen.turnedBack
  }

  /** The trusted time in milliseconds, after reading the local clock. */
  time(): number {
    return this.#time.read()
  }

  /** Whether the valid token came in a file. Only another file renews it, because tokens of the service are shorter. */
  get isOfflineNow(): boolean {
    return this.#token !== null && this.#token.claims.offline && this.time() < this.#token.claims.expiresAt
  }

  /** Whether the current token is past half of its life. */
  isTokenDue(): boolean {
    return this.#token !== null && this.time() >= this.#token.claims.refreshAfter
  }

  statusWithReason(): StatusWithReason {
    return determineStatus(this.#evidence(), this.time())
  }

  state(): LicenceState {
    const interval = this.#token?.claims.checkIntervalMs ?? 0
    const freshness = this.#revocations.freshness(this.time(), interval)
    return describe(this.#evidence(), this.#time.seen, freshness, this.#problem.value)
  }

  /**
   * Uses newer content of the store's text (null if the store is empty): at the start and before each save, so that several
   * processes can share a store. The content is verified.
   */
  async merge(text: string | null): Promise<void> {
    const record = text === null ? null : parse(text)
    if (text !== null && !record && !this.#loaded) this.#absence = 'store_corrupt'
    if (record && record.appId === this.#identity.appId) await this.#mergeRecord(record)
    this.#loaded = true
  }

  async #mergeRecord(record: StoredRecord): Promise<void> {
    await this.keys.merge(record, !this.#loaded || record.revision > this.#revision)
    this.#time.merge(record.seen)
    const stored = await readStoredLicence(record, this.#identity, this.#reader, this.time())
    if (!isForeign(stored)) this.#displaced = false
    if (!this.#loaded) this.#restore(record, stored)
    else if (this.#isNewer(record, stored)) this.#applyRecord(record, stored)
    else this.#keepToken(record)
    await this.#mergeLists(record, stored)
  }

  /** Whether another process replaced or freed the token later than this one did. */
  #isNewer(record: StoredRecord, stored: StoredLicence): boolean {
    const [mine, theirs] = [this.#token?.claims, stored.token?.claims]
    const isLater = mine !== undefined && theirs !== undefined && theirs.issuedAt > mine.issuedAt
    // Of two tokens of the service the later one counts. A file may be older than the token that it replaces.
    if (mine && theirs && !mine.offline && !theirs.offline && mine.issuedAt !== theirs.issuedAt)
      return isLater
    if (record.revision !== this.#revision) return record.revision > this.#revision
    // Both processes replaced it at the same time: an activation that was freed stays freed.
    return record.token === null ? mine !== undefined : isLater
  }

  /** Keeps the current token, because the record has no newer one. */
  #keepToken(record: StoredRecord): void {
    this.#revision = Math.max(this.#revision, record.revision)
    if (record.token !== (this.#stored?.jws ?? null)) return
    this.#refusal ??= record.refusal
    this.#nonce = record.nonce ?? this.#nonce
  }

  /** At the start: reads everything in the store for this machine and key. */
  #restore(record: StoredRecord, stored: StoredLicence): void {
    this.#absence = stored.absence ?? this.#absence
    this.#revision = record.revision
    if (stored.absence === 'licence_key_changed') {
      this.#revision++
      return
    }
    this.#adopt(record, stored)
  }

  /** Applies the changes that another process made while this one was running. */
  #applyRecord(record: StoredRecord, stored: StoredLicence): void {
    this.#displaced = isForeign(stored)
    if (this.#displaced) this.#revision = record.revision
    // A token that cannot be verified is ignored: the current one replaces it.
    if (this.#displaced || (record.token !== null && !stored.token)) return
    if (stored.token) this.#setToken(stored.token)
    else if (this.#token) this.recordDeactivation()
    this.#revision = Math.max(this.#revision, record.revision)
    this.#adopt(record, stored)
  }

  #adopt(record: StoredRecord, stored: StoredLicence): void {
    this.#licenceKey = this.#identity.licenceKey ?? record.licenceKey ?? this.#licenceKey
    this.#legacyKey = record.legacyKey
    this.#nonce = record.nonce
    this.former = stored.former
    if (!stored.token) return
    this.#token = stored.token
    this.#time.notBefore(stored.token.claims.issuedAt)
    this.#refusal = record.refusal
  }

  async #mergeLists({ revocations }: StoredRecord, stored: StoredLicence): Promise<void> {
    if (!revocations || !this.#token) return
    for (const jws of [revocations.namedBy, revocations.list]) {
      // The keys may have ended, because a licence that a list names stays revoked.
      const list = jws === null ? null : await this.#reader.readList(jws)
      if (jws === null || list === null || typeof list === 'string') continue
      this.#time.notBefore(list.issuedAt)
      if (this.#names(list)) this.#revocations.restoreNamedBy(jws)
      const isOfLicence = stored.token?.claims.licenceId === this.#token.claims.licenceId
      if (jws === revocations.list && isOfLicence) this.#revocations.restoreList(list, jws, revocations)
    }
    // The time of the last check in the store may be in the future.
    this.#revocations.limitCheckedAt(this.#time.seen.time)
  }

  /** Returns the text that replaces `text` in the store. `merge` was called with `text` before. */
  save(text: string | null): string {
    // The store now belongs to another product or machine, which was activated later.
    if (this.#displaced && text !== null) return text
    this.#ensureNonce()
    return serialise({
      appId: this.#identity.appId,
      licenceKey: this.#licenceKey,
      legacyKey: this.#legacyKey,
      fingerprint: this.former?.fingerprint ?? this.#identity.fingerprint,
      token: this.#stored?.jws ?? null,
      floating: this.#stored?.floating ?? false,
      refusal: this.#token && this.#refusal,
      ...this.keys.save(),
      fileKeys: this.#stored?.fileKeys?.jws ?? null,
      revocations: this.#revocations.save(this.#time.seen.time),
      seen: this.#time.seen,
      revision: this.#revision,
      nonce: this.#nonce,
    })
  }

  /**
   * The nonce of a request for an offline file; null if the file need not set the time back. It is created when nothing is
   * granted and the trusted time is ahead of the local clock, is kept in the store, and works for one file. So an
   * older file never sets the time back.
   */
  nonceForFile(): string | null {
    this.#ensureNonce()
    return this.#nonce
  }

  #ensureNonce(): void {
    if (this.#time.isAhead() && this.#hasEnded()) this.#nonce ??= this.#newNonce()
  }

  #hasEnded(): boolean {
    return this.#token === null || this.#time.seen.time >= this.#token.claims.expiresAt
  }

  /** A nonce for a request that is answered at once. */
  newNonce(): string {
    return this.#newNonce()
  }

  /**
   * The time at which an answer to a request with `nonce` is checked. A token with this nonce was issued after the request:
   * if the trusted time is ahead of the clock, the clock counts. Nothing is verified here.
   */
  timeFor(jws: string, nonce: string | null): number {
    const claims = unverified(jws)
    if (nonce === null || claims?.['nonce'] !== nonce || !isUnixTime(claims['iat'])) return this.time()
    return Math.max(this.#time.local(), claims['iat'] * 1000)
  }

  /** The token if it is authentic, of this application and for this machine; else the reason of the refusal. */
  readToken(jws: string, time: number): Promise<VerifiedToken | Unreadable> {
    return this.#reader.readToken(jws, time)
  }

  /** The list if it is authentic and of this application; else the reason of the refusal. */
  async readList(jws: string): Promise<RevocationList | Unreadable> {
    return this.keys.isExpired(this.time()) ? 'unknown_key' : this.#reader.readList(jws)
  }

  /**
   * The token of an offline file, if a root key has signed its keys and it is for this machine; else the reason of
   * the refusal.
   */
  readFile(text: unknown): Promise<VerifiedToken | FileRefusal> {
    const timeFor = (jws: string) => this.timeFor(jws, this.#nonce)
    return this.#reader.readFile(text, timeFor, this.#token?.claims ?? null)
  }

  /**
   * Accepts the token of a file. The file may be old and read before, so only the nonce lets it set the time back.
   */
  acceptFile(token: VerifiedToken): void {
    const isAnswer = this.#nonce !== null && token.claims.nonce === this.#nonce
    this.#updateTime(token, isAnswer ? this.#time.local() : null)
    this.#replace(token)
  }

  /** A file was refused: nothing changes. */
  recordFileRefusal(reason: FileRefusal): void {
    if (this.#token) return
    this.#absence = reason
    this.#refusal = null
    this.#failure = null
  }

  /** Accepts a token of the service, the answer to a request with `nonce`. */
  accept(token: VerifiedToken, nonce: string): void {
    // An answer to this request sets the time even if the clock is ahead, so a clock with a constant error does no
    // harm.
    this.#updateTime(token, token.claims.nonce === nonce ? token.claims.issuedAt : null)
    this.#replace(token)
  }

  /** Sets the time to `now`, from a token that answers a request; null if the token may be an old one. */
  #updateTime({ claims }: VerifiedToken, now: number | null): void {
    this.time()
    const signed = [claims.issuedAt, this.#token?.claims.issuedAt ?? 0, this.list?.issuedAt ?? 0]
    if (now === null) this.#time.notBefore(claims.issuedAt)
    else this.#time.correct(Math.max(now, ...signed))
  }

  #replace(token: VerifiedToken): void {
    this.#setToken(token)
    this.#revision++
    this.#displaced = false
    this.#nonce = null
  }

  #setToken(token: VerifiedToken): void {
    if (token.claims.licenceId !== this.#token?.claims.licenceId) this.#revocations = new RevocationState()
    this.#revocations.limitCheckedAt(this.#time.seen.time)
    this.#token = token
    this.former = null
    this.#refusal = null
    this.#failure = null
    this.#problem.clearTokenProblem()
  }

  /** Records a refusal by the service. */
  recordRefusal(reason: RefusalReason): void {
    this.#refusal = reason
    this.#failure = null
  }

  /** Records that the service could not be reached. */
  recordFailure(reason: FailureReason): void {
    this.#failure = reason
  }

  /** Records that there is no licence key to activate. */
  recordMissingKey(): void {
    this.#absence = 'no_licence_key'
  }

  /** Records that the service freed the activation. */
  recordDeactivation(): void {
    this.#removeToken('deactivated')
  }

  /** Records that the service ended the lease: the product may not run until it has another one. */
  recordRelease(): void {
    this.#removeToken('released')
  }

  #removeToken(absence: AbsenceReason): void {
    this.#token = null
    this.#refusal = null
    this.#failure = null
    this.#absence = absence
    this.#revision++
    this.#revocations = new RevocationState()
    this.#problem.clearTokenProblem()
  }

  /** Records the licence key that a legacy key was exchanged for. */
  recordMigration(legacyKey: string, licenceKey: string): void {
    this.#legacyKey = legacyKey
    this.#licenceKey = licenceKey
    this.#refusal = null
    this.#revision++
  }

  /** Records the licence key of a trial. */
  recordTrial(licenceKey: string): void {
    this.#licenceKey = licenceKey
  }

  /** Processes an authentic revocation list, the answer to a request with `since`. */
  acceptList(list: RevocationList, jws: string, etag: string | null, since: number | null): Acceptance {
    const from = { jws, etag, since, time: Math.max(this.time(), list.issuedAt) }
    const acceptance = this.#revocations.accept(list, this.#names(list), from)
    if (acceptance === 'accepted') this.#time.notBefore(list.issuedAt)
    return acceptance
  }

  /** Records that the service confirmed the current list as the latest. */
  confirmList(): void {
    this.#revocations.confirm(this.time())
  }

  /** Records the problem of an operation; null after a success. */
  recordProblem(operation: Problem['operation'], problem: { code: string; detail: string } | null): void {
    this.#problem.record(operation, problem, this.time())
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
