import type { Trust } from './root-key.ts'
import { isString } from './shape.ts'
import { isKeySet, type KeySet } from './signature.ts'
import { readSignedKeys, type SignedKeys } from './signed-keys.ts'
import type { FailureReason } from './state.ts'

/** The keys, in the form of the store. */
export interface StoredKeys {
  /** The signed set that was last accepted. */
  readonly signedKeys: string | null
  /** The set that was last received, if no root key is pinned. */
  readonly keySet: KeySet | null
}

/** Why received keys were not accepted. */
export interface KeysProblem {
  readonly reason: FailureReason
  readonly detail: string
}

/** The service signs key sets for 30 days. A set that lasts longer belongs to an offline file, and is accepted only there. */
const MAX_LIFE_MS = 31 * 86_400_000

/** The public keys of the application that this installation trusts. */
export class TrustedKeys {
  readonly #trust: Trust
  readonly #appId: string
  #signed: SignedKeys | null = null
  #unsigned: KeySet | null = null

  constructor(trust: Trust, appId: string) {
    this.#trust = trust
    this.#appId = appId
  }

  /** Null if there is no key set, or the trusted root keys do not verify it. */
  get set(): KeySet | null {
    return this.#signed ?? this.#unsigned
  }

  /** The signed set held; null if there is none. */
  get signed(): SignedKeys | null {
    return this.#signed
  }

  /** Whether the set has ended. It then verifies only tokens that have ended. */
  isExpired(time: number): boolean {
    return this.#signed !== null && this.#signed.expiresAt <= time
  }

  /** Whether half of the set's life is over. It is renewed then, so that no token lasts longer than its keys. */
  isDue(time: number): boolean {
    const { issuedAt, expiresAt } = this.#signed ?? { issuedAt: time, expiresAt: Infinity }
    return time >= issuedAt + (expiresAt - issuedAt) / 2
  }

  /** Reads an answer of `jwks.json`; null if its keys are accepted. */
  async accept(body: unknown, time: number): Promise<KeysProblem | null> {
    if (!isKeySet(body)) return { reason: 'unexpected_answer', detail: 'the answer is no key set' }
    if (this.#trust === 'unpinned') {
      this.#unsigned = body
      return null
    }
    const { signed } = body as { signed?: unknown }
    let problem: KeysProblem = PROBLEMS.untrusted_keys
    for (const jws of Array.isArray(signed) ? signed.filter(isString) : []) {
      const read = await readSignedKeys(jws, this.#trust, this.#appId)
      const refusal = isString(read) ? read : this.#refusal(read, time)
      if (isString(read) || refusal !== null) {
        if (refusal !== null && refusal !== 'untrusted_keys') problem = PROBLEMS[refusal]
        continue
      }
      this.#signed = read
      return null
    }
    return problem
  }

  /** Uses the set in the store if it is newer. It is verified like a set of the service. */
  async merge({ signedKeys, keySet }: StoredKeys, isNewer: boolean): Promise<void> {
    if (this.#trust === 'unpinned') {
      if (isNewer) this.#unsigned = keySet ?? this.#unsigned
    } else if (signedKeys !== null && signedKeys !== this.#signed?.jws) {
      const read = await readSignedKeys(signedKeys, this.#trust, this.#appId)
      if (isString(read) || !isFromService(read)) return
      const age = read.issuedAt - (this.#signed?.issuedAt ?? -Infinity)
      // If both sets are of the same second, the newer record has the newer set.
      if (age > 0 || (age === 0 && isNewer)) this.#signed = read
    }
  }

  /** Returns the first key set of an offline file that is signed with a root key; else why there is none. */
  async readFile(signed: readonly string[]): Promise<SignedKeys | FileKeysRefusal> {
    if (this.#trust === 'unpinned') return 'root_key_required'
    let refusal: FileKeysRefusal = 'untrusted_keys'
    for (const jws of signed) {
      const read = await readSignedKeys(jws, this.#trust, this.#appId)
      if (!isString(read)) return read
      if (read === 'unsupported_runtime') refusal = read
    }
    return refusal
  }

  /** Whether the key was withdrawn: a later set of the service lacks it. */
  isWithdrawn(kid: string | undefined, issuedAt: number): boolean {
    const current = this.#signed
    return current !== null && current.issuedAt > issuedAt && !current.keys.some((key) => key.kid === kid)
  }

  save(): StoredKeys {
    return { signedKeys: this.#signed?.jws ?? null, keySet: this.#unsigned }
  }

  #refusal(keys: SignedKeys, time: number): 'untrusted_keys' | 'keys_expired' | 'keys_outdated' | null {
    if (!isFromService(keys)) return 'untrusted_keys'
    if (keys.expiresAt <= time) return 'keys_expired'
    if (this.#signed && keys.issuedAt < this.#signed.issuedAt) return 'keys_outdated'
    return null
  }
}

type FileKeysRefusal = 'root_key_required' | 'untrusted_keys' | 'unsupported_runtime'

function isFromService({ issuedAt, expiresAt }: SignedKeys): boolean {
  return expiresAt - issuedAt <= MAX_LIFE_MS
}

const PROBLEMS = {
  untrusted_keys: {
    reason: 'untrusted_keys',
    detail: 'the keys are not signed with a root key of this product',
  },
  keys_expired: {
    reason: 'keys_expired',
    detail: 'the signed keys are past their end, or the clock is ahead',
  },
  keys_outdated: { reason: 'keys_outdated', detail: 'the signed keys are older than those held' },
  unsupported_runtime: {
    reason: 'unsupported_runtime',
    detail: 'Web Crypto of this runtime does not support Ed25519',
  },
} as const satisfies Record<string, KeysProblem>
