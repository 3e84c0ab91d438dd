import type { TrustedKeys } from './trusted-keys.ts'
import { readRevocationList, type RevocationList } from './revocation-list.ts'
import type { Trust } from './root-key.ts'
import { isString } from './shape.ts'
import { keyIdOf, unverified, verify, type KeySet } from './signature.ts'
import type { SignedKeys } from './signed-keys.ts'
import type { FileRefusal } from './state.ts'
import type { StoredRecord } from './stored-record.ts'
import { readToken, type TokenClaims } from './token.ts'

/** A token whose signature has been verified. */
export interface VerifiedToken {
  readonly jws: string
  readonly claims: TokenClaims
  /** The key set of the file that it came in; null for a token of the service. */
  readonly fileKeys?: SignedKeys | null
  /** The activation held a lease of a floating licence when the token was issued. */
  readonly floating?: boolean
}

export type Unreadable = 'unknown_key' | 'forged' | 'unsupported_runtime'

/** The application and installation that a token must be issued for. */
export interface TokenIdentity {
  readonly appId: string
  readonly fingerprint: string
  readonly trust: Trust
}

/** Verifies signed texts, with trusted keys only. Times are in milliseconds since 1970 UTC. */
export class TokenReader {
  readonly #identity: TokenIdentity
  readonly #keys: TrustedKeys

  constructor(identity: TokenIdentity, keys: TrustedKeys) {
    this.#identity = identity
    this.#keys = keys
  }

  async readToken(
    jws: string,
    time: number,
    fingerprint = this.#identity.fingerprint,
  ): Promise<VerifiedToken | Unreadable> {
    const token = await this.#readWith(this.#keys.set, jws, fingerprint)
    if (isString(token)) return token
    return isInTime(this.#keys.signed, token.claims, time) ? token : 'unknown_key'
  }

  /** The token of the store, verified with the keys of the service or of its file. */
  async readStored(
    record: Pick<StoredRecord, 'fileKeys' | 'fingerprint' | 'floating'>,
    jws: string,
    time: number,
  ): Promise<VerifiedToken | Unreadable> {
    if (record.fileKeys === null) {
      const token = await this.readToken(jws, time, record.fingerprint)
      return isString(token) ? token : { ...token, floating: record.floating }
    }
    const keys = await this.#keys.readFile([record.fileKeys])
    if (isString(keys) || this.#keys.isWithdrawn(keyIdOf(jws), keys.issuedAt)) return 'forged'
    const token = await this.#readWith(keys, jws, record.fingerprint)
    if (isString(token)) return token
    return token.claims.offline && isInTime(keys, token.claims, time)
      ? { ...token, fileKeys: keys }
      : 'forged'
  }

  /** Reads an offline file; `timeFor` gives the time at which its token is checked. */
  async readFile(
    text: unknown,
    timeFor: (jws: string) => number,
    current: TokenClaims | null,
  ): Promise<VerifiedToken | FileRefusal> {
    const { appId, fingerprint, trust } = this.#identity
    if (trust === 'unpinned') return 'root_key_required'
    const file = readOfflineFile(text)
    if (!file) return 'file_malformed'
    const claimed = unverified(file.token)
    // This check only gives a better reason: a file of another application would not verify either.
    if (claimed !== null && isString(claimed['aud']) && claimed['aud'] !== appId) {
      return 'file_of_another_application'
    }
    const keys = await this.#keys.readFile(file.signed)
    if (isString(keys)) return keys
    if (this.#keys.isWithdrawn(keyIdOf(file.token), keys.issuedAt)) return 'keys_outdated'
    const machine = claimed?.['fingerprint']
    const token = await this.#readWith(keys, file.token, isString(machine) ? machine : fingerprint)
    if (token === 'unsupported_runtime') return token
    if (isString(token)) return 'untrusted_signature'
    const time = timeFor(file.token)
    return this.#refusalOfFile(token.claims, keys, time, current) ?? { ...token, fileKeys: keys }
  }

  async readList(jws: string): Promise<RevocationList | Unreadable> {
    const verified = await verify(jws, this.#keys.set)
    if (verified.result !== 'authentic') return verified.result
    return readRevocationList(verified.payload, this.#identity.appId) ?? 'forged'
  }

  async #readWith(
    keys: KeySet | null,
    jws: string,
    fingerprint: string,
  ): Promise<VerifiedToken | Unreadable> {
    const verified = await verify(jws, keys)
    if (verified.result !== 'authentic') return verified.result
    const claims = readToken(verified.payload, this.#identity.appId)
    if (!claims || (claims.fingerprint !== null && claims.fingerprint !== fingerprint)) return 'forged'
    return { jws, claims }
  }

  #refusalOfFile(
    claims: TokenClaims,
    keys: SignedKeys,
    time: number,
    current: TokenClaims | null,
  ): FileRefusal | null {
    if (!claims.offline) return 'file_malformed'
    if (claims.fingerprint !== this.#identity.fingerprint) return 'file_of_another_machine'
    if (Math.min(claims.expiresAt, keys.expiresAt) <= time) return 'file_expired'
    const replaces =
      current?.offline && current.expiresAt > time && current.activationId === claims.activationId
    return replaces && current.issuedAt > claims.issuedAt ? 'file_outdated' : null
  }
}

/** Keys that have ended verify only tokens that have ended, so that these can be shown and renewed. */
function isInTime(keys: SignedKeys | null, { expiresAt }: TokenClaims, time: number): boolean {
  return keys === null || keys.expiresAt > time || expiresAt <= time
}

/** The content of an offline licence file. */
interface OfflineFile {
  readonly token: string
  /** Key sets that a root key has signed, which verify the token. */
  readonly signed: readonly string[]
}

// Word processors and mail programs replace the hyphens of these lines by dashes.
const FILE =
  /[-\u2010-\u2015\u2212]+\s*BEGIN\s+LICENCE\s*[-\u2010-\u2015\u2212]+([^]*?)[-\u2010-\u2015\u2212]{2,}[\s>]*END\s+LICENCE/i
/** Soft hyphens and characters without a width. */
const INVISIBLE = /[\u00AD\u200B-\u200F\u202A-\u202E\u2060-\u2064\uFEFF]/g
/** The marks of a quoted line, or the end of a line that a mail program has wrapped (`=`, RFC 2045). */
const MAIL_MARKS = /^[^\S\r\n]*(?:>[^\S\r\n]*)+|=[^\S\r\n]*$/gm
/** A compact JWS with a signature of 64 bytes (Ed25519), so that its end is known without the end of a line. */
const JWS = /[\w-]+\.[\w-]+\.[\w-]{86}/g

/**
 * Reads an offline licence file, the first one in the text; null if there is none. Around it may be any text. Inside, a mail
 * program may have wrapped and quoted lines, and added blanks and invisible characters.
 */
function readOfflineFile(text: unknown): OfflineFile | null {
  if (typeof text !== 'string') return null
  const [, content = ''] = FILE.exec(text.replace(INVISIBLE, '')) ?? []
  const joined = content.replace(MAIL_MARKS, '').replace(/\s/g, '')
  const [token, ...signed] = joined.match(JWS) ?? []
  if (token === undefined || signed.length === 0 || [token, ...signed].join('') !== joined) return null
  return { token, signed }
}
