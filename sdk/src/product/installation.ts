import { HeldRevocations } from './held-revocations.ts'
import { readRevocationList, type Acceptance, type RevocationList } from './revocation-list.ts'
import { verify, type KeySet } from './signature.ts'
import {
  describe,
  judge,
  type AbsenceReason,
  type Evidence,
  type FailureReason,
  type Judgement,
  type LicenceState,
  type Problem,
  type RefusalReason,
} from './state.ts'
import { parse, serialise, type StoredRecord } from './stored-record.ts'
import { readToken, type TokenClaims } from './token.ts'
import { anchor, notBefore, observe, resume, type SeenTime } from './trusted-clock.ts'

/** A token whose signature has been verified. */
export interface HeldToken {
  readonly jws: string
  readonly claims: TokenClaims
}

interface Identity {
  readonly appId: string
  readonly licenceKey: string | null
  readonly fingerprint: string
}

const ABOUT_TOKENS: ReadonlySet<Problem['operation']> = new Set([
  'activate',
  'refresh',
  'migrate',
  'deactivate',
])

/** All that this installation knows of its licence, and what each piece of news does to it. No network in it. */
export class Installation {
  readonly #identity: Identity
  readonly #now: () => number
  #loaded = false
  #token: HeldToken | null = null
  #revocations = new HeldRevocations()
  #refusal: RefusalReason | null = null
  #failure: FailureReason | null = null
  #absence: AbsenceReason = 'not_activated'
  #problem: Problem | null = null
  #seen: SeenTime
  #licenceKey: string | null
  #legacyKey: string | null = null
  /** The activation that this machine held under another fingerprint: freed when its place is needed. */
  former: { readonly token: HeldToken; readonly fingerprint: string } | null = null
  keySet: KeySet | null = null

  constructor(identity: Identity, now: () => number) {
    this.#identity = identity
    this.#now = now
    this.#licenceKey = identity.licenceKey
    this.#seen = observe(null, now())
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
    return this.#seen.turnedBack
  }

  /** The trusted time in milliseconds, after a look at the local clock. */
  time(): number {
    this.#seen = observe(this.#seen, this.#now())
    return this.#seen.time
  }

  /** The token held is past half of its life. */
  isTokenDue(): boolean {
    return this.#token !== null && this.time() >= this.#token.claims.refreshAfter
  }

  judgement(): Judgement {
    return judge(this.#evidence(), this.time())
  }

  state(): LicenceState {
    this.time()
    const interval = this.#token?.claims.checkIntervalMs ?? 0
    const freshness = this.#revocations.freshness(this.#seen.time, interval)
    return describe(this.#evidence(), this.#seen, freshness, this.#problem)
  }

  /** Takes in the store's text; null when it has none. */
  async load(text: string | null): Promise<void> {
    const record = text === null ? null : parse(text)
    if (text !== null && !record) this.#absence = 'store_corrupt'
    if (record && record.appId === this.#identity.appId) await this.#restore(record)
    this.#loaded = true
  }

  async #restore(record: StoredRecord): Promise<void> {
    this.keySet = record.keySet
    this.#seen = resume(record.seen, this.#now())
    const { licenceKey, fingerprint } = this.#identity
    if (licenceKey !== null && record.licenceKey !== null && !sameKey(licenceKey, record.licenceKey)) {
      this.#absence = 'licence_key_changed'
      return
    }
    this.#licenceKey ??= record.licenceKey
    this.#legacyKey = record.legacyKey
    const token = record.token === null ? null : await this.readToken(record.token)
    if (typeof token === 'string') this.#absence = 'store_corrupt'
    else if (token && record.fingerprint !== fingerprint) {
      this.#absence = 'fingerprint_changed'
      this.former = { token, fingerprint: record.fingerprint }
    } else if (token) {
      this.#token = token
      this.#seen = notBefore(this.#seen, token.claims.issuedAt)
      this.#refusal = record.refusal
      await this.#restoreLists(record)
    }
  }

  async #restoreLists({ revocations }: StoredRecord): Promise<void> {
    if (!revocations) return
    for (const jws of [revocations.namedBy, revocations.list]) {
      const list = jws === null ? null : await this.readList(jws)
      if (jws === null || list === null || typeof list === 'string') continue
      this.#seen = notBefore(this.#seen, list.issuedAt)
      this.#revocations.restore(list, jws, this.#names(list), revocations)
    }
    // A store may say that the list was looked at in the future.
    this.#revocations.timeWasSet(this.#seen.time)
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
      keySet: this.keySet,
      revocations: this.#revocations.save(this.#seen.time),
      seen: this.#seen,
    })
  }

  /** The token if it is authentic and of this application; else why it is not. */
  async readToken(jws: string): Promise<HeldToken | 'unknown_key' | 'forged' | 'unsupported_runtime'> {
    const verified = await verify(jws, this.keySet)
    if (verified.result !== 'authentic') return verified.result
    const claims = readToken(verified.payload, this.#identity.appId)
    return claims ? { jws, claims } : 'forged'
  }

  /** The list if it is authentic and of this application; else why it is not. */
  async readList(jws: string): Promise<RevocationList | 'unknown_key' | 'forged' | 'unsupported_runtime'> {
    const verified = await verify(jws, this.keySet)
    if (verified.result !== 'authentic') return verified.result
    return readRevocationList(verified.payload, this.#identity.appId) ?? 'forged'
  }

  /** A token came from the service. */
  accept(token: HeldToken): void {
    const signedBefore = Math.max(this.#token?.claims.issuedAt ?? 0, this.list?.issuedAt ?? 0)
    const { issuedAt, licenceId } = token.claims
    this.time()
    this.#seen = issuedAt > signedBefore ? anchor(this.#seen, issuedAt) : notBefore(this.#seen, issuedAt)
    if (licenceId !== this.#token?.claims.licenceId) this.#revocations = new HeldRevocations()
    this.#revocations.timeWasSet(this.#seen.time)
    this.#token = token
    this.former = null
    this.#refusal = null
    this.#failure = null
    this.#forgetTroubleWithTokens()
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
    this.#forgetTroubleWithTokens()
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
    if (acceptance === 'accepted') this.#seen = notBefore(this.#seen, list.issuedAt)
    return acceptance
  }

  /** The service confirmed that the list held is the latest. */
  confirmList(): void {
    this.#revocations.confirm(this.time())
  }

  /** Notes what went wrong; null when the operation went right. */
  note(operation: Problem['operation'], problem: { code: string; detail: string } | null): void {
    if (problem) this.#problem = { operation, ...problem, at: new Date(this.time()).toISOString() }
    else if (this.#problem?.operation === operation) this.#problem = null
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

  #forgetTroubleWithTokens(): void {
    if (this.#problem && ABOUT_TOKENS.has(this.#problem.operation)) this.#problem = null
  }
}

/** Keys are read without regard to case and hyphens. */
function sameKey(one: string, other: string): boolean {
  const plain = (key: string) => key.replaceAll('-', '').toUpperCase()
  return plain(one) === plain(other)
}
