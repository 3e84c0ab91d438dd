import { isCount, isObject, isString, isStrings, isUnixTime } from './shape.ts'
import { keyIdOf, unverified, verify, type PublicKey, type Unreadable } from './signature.ts'
import type { FileRefusal } from './reasons.ts'

/**
 * From bytes to verified claims: root keys, key sets, tokens, revocation lists and offline files. Everything that the service
 * signs, wherever it came from, is read here. Times are in milliseconds since 1970 UTC.
 */

/** The installation that a text must have been signed for. */
export interface Identity {
  readonly appId: string
  readonly fingerprint: string
  /** The key that the product was given; null to use the stored one. */
  readonly licenceKey: string | null
  readonly trust: Trust
}

// Root keys

/** The root keys that must have signed other keys, or `unpinned` to trust all keys. */
export type Trust = readonly PublicKey[] | 'unpinned'

/**
 * Reads the option `rootKey`.
 *
 * @throws TypeError if it is missing or malformed, so that no product trusts any key by mistake
 */
export function readTrust(given: unknown): Trust {
  if (given === 'unpinned') return given
  const texts: unknown[] = Array.isArray(given) ? given : [given]
  const keys = texts.map(readRootKey)
  if (keys.length === 0 || keys.some((key) => key === null)) {
    throw new TypeError(
      "rootKey must be the application's root_key (GET /v1/apps/{app_id}), or several; 'unpinned' does without, and lets anyone who can edit the store license the product",
    )
  }
  return keys as PublicKey[]
}

// 32 bytes in base64url: the last two bits of the last character are unused, and must be 0.
const ROOT_KEY = /^lrk_([A-Za-z0-9_-]{42}[AEIMQUYcgkosw048])$/

/** The `kid` of a root key is the text itself. */
function readRootKey(text: unknown): PublicKey | null {
  const x = typeof text === 'string' ? ROOT_KEY.exec(text)?.[1] : undefined
  return x === undefined ? null : { kid: `lrk_${x}`, x }
}

// Key sets

/** The public keys of the application. */
export interface Keys {
  /** The signed set, an entry of `signed`; null if the client is unpinned, which believes the keys as they come. */
  readonly jws: string | null
  readonly keys: readonly PublicKey[]
  /** When a root key signed the set; for an unpinned client when it was received. */
  readonly issuedAt: number
  /** Infinity for an unpinned client. */
  readonly expiresAt: number
}

/** The service signs key sets for 30 days. A set that lasts longer belongs to an offline file, and is accepted only there. */
const MAX_LIFE_MS = 31 * 86_400_000

export type KeysRefusal =
  'unexpected_answer' | 'untrusted_keys' | 'keys_expired' | 'keys_outdated' | 'unsupported_runtime'

/** Reads an answer of `jwks.json` at `time`: the first set that may replace the current one, else why there is none. */
export async function readKeys(
  body: unknown,
  { trust, appId }: Identity,
  current: Keys | null,
  time: number,
): Promise<Keys | KeysRefusal> {
  if (!isKeySet(body)) return 'unexpected_answer'
  if (trust === 'unpinned') return unsignedKeys(body, time)
  const { signed } = body as { signed?: unknown }
  let refusal: KeysRefusal = 'untrusted_keys'
  for (const jws of Array.isArray(signed) ? signed.filter(isString) : []) {
    const keys = await readSignedKeys(jws, trust, appId)
    const problem = isString(keys) ? keys : refusalOfKeys(keys, current, time)
    if (problem === null) return keys
    if (problem !== 'untrusted_keys') refusal = problem
  }
  return refusal
}

function refusalOfKeys(keys: Keys, current: Keys | null, time: number): KeysRefusal | null {
  if (!isFromService(keys)) return 'untrusted_keys'
  if (keys.expiresAt <= time) return 'keys_expired'
  return current && keys.issuedAt < current.issuedAt ? 'keys_outdated' : null
}

/** The keys in the store, verified like those of the service, but for their age; null if there are none. */
export async function readStoredKeys(
  stored: { readonly signed_keys: string | null; readonly jwks: KeySet | null; readonly jwks_at: string },
  { trust, appId }: Identity,
): Promise<Keys | null> {
  if (trust === 'unpinned') return stored.jwks && unsignedKeys(stored.jwks, Date.parse(stored.jwks_at))
  if (stored.signed_keys === null) return null
  const keys = await readSignedKeys(stored.signed_keys, trust, appId)
  return isString(keys) || !isFromService(keys) ? null : keys
}

export interface KeySet {
  readonly keys: readonly PublicKey[]
}

export function isKeySet(value: unknown): value is KeySet {
  return isObject(value) && Array.isArray(value['keys']) && value['keys'].every(isObject)
}

function unsignedKeys({ keys }: KeySet, receivedAt: number): Keys {
  return { jws: null, keys, issuedAt: receivedAt, expiresAt: Infinity }
}

async function readSignedKeys(
  jws: string,
  roots: readonly PublicKey[],
  appId: string,
): Promise<Keys | 'untrusted_keys' | 'unsupported_runtime'> {
  const payload = await verify(jws, roots)
  if (payload === 'unsupported_runtime') return payload
  if (isString(payload)) return 'untrusted_keys'
  const { app_id: app, keys, iat, exp } = payload
  if (app !== appId || !Array.isArray(keys) || !keys.every(isObject)) return 'untrusted_keys'
  if (!isUnixTime(iat) || !isUnixTime(exp)) return 'untrusted_keys'
  return { jws, keys, issuedAt: iat * 1000, expiresAt: exp * 1000 }
}

function isFromService({ issuedAt, expiresAt }: Keys): boolean {
  return expiresAt - issuedAt <= MAX_LIFE_MS
}

/** Keys that have ended verify only tokens that have ended, so that these can be shown and renewed. */
function isInTime(keys: Keys | null, { expiresAt }: TokenClaims, time: number): boolean {
  return keys === null || keys.expiresAt > time || expiresAt <= time
}

/** Whether the key that signed a file was withdrawn: a later set of the service lacks it. */
function isWithdrawn(jws: string, fileKeys: Keys, current: Keys | null): boolean {
  if (!current || current.issuedAt <= fileKeys.issuedAt) return false
  const kid = keyIdOf(jws)
  return !current.keys.some((key) => key.kid === kid)
}

// Tokens

export interface TokenClaims {
  readonly licenceId: string
  readonly activationId: string
  readonly planId: string | null
  readonly licenceStatus: string | null
  readonly issuedAt: number
  readonly expiresAt: number
  /** Half of the life; of an offline token the end, as only another file renews it. */
  readonly refreshAfter: number
  readonly checkIntervalMs: number
  readonly seats: number | null
  /** The product may be updated to releases until this time; null: to all. */
  readonly updatesUntil: number | null
  readonly entitlements: Readonly<Record<string, string>>
  /** Whether the token came in a file, for a machine without a network. */
  readonly offline: boolean
  /** The fingerprint that it is valid for; null if only the service knows it. */
  readonly fingerprint: string | null
  /** The nonce of the request that it answers; null if the request had none. */
  readonly nonce: string | null
}

const MAX_CHECK_INTERVAL_S = 86_400

/** Reads the token of an answer at `time`: it must be for this installation. */
export function readToken(
  jws: string,
  keys: Keys | null,
  { appId, fingerprint }: Identity,
  time: number,
): Promise<TokenClaims | Unreadable> {
  return readClaims(jws, keys, { appId, fingerprint, time })
}

/** Reads the token of the store, with the keys of the service or of the file that it came in. */
export async function readStoredToken(
  stored: { readonly token: string; readonly file_keys: string | null; readonly fingerprint: string },
  keys: Keys | null,
  { appId, trust }: Identity,
  time: number,
): Promise<{ readonly claims: TokenClaims; readonly fileKeys: Keys | null } | null> {
  const { token: jws, file_keys: signed, fingerprint } = stored
  const fileKeys = signed === null || trust === 'unpinned' ? null : await readSignedKeys(signed, trust, appId)
  if (signed !== null && (fileKeys === null || isString(fileKeys))) return null
  if (isString(fileKeys) || (fileKeys && isWithdrawn(jws, fileKeys, keys))) return null
  const claims = await readClaims(jws, fileKeys ?? keys, { appId, fingerprint, time })
  if (isString(claims) || (fileKeys && !claims.offline)) return null
  return { claims, fileKeys }
}

async function readClaims(
  jws: string,
  keys: Keys | null,
  { appId, fingerprint, time }: { appId: string; fingerprint: string; time: number },
): Promise<TokenClaims | Unreadable> {
  const payload = await verify(jws, keys?.keys ?? [])
  if (isString(payload)) return payload
  const claims = claimsIn(payload, appId)
  if (!claims || (claims.fingerprint !== null && claims.fingerprint !== fingerprint)) return 'forged'
  return isInTime(keys, claims, time) ? claims : 'unknown_key'
}

/** The claims in an authentic payload; null if it is not a token of this application. */
function claimsIn(payload: Readonly<Record<string, unknown>>, appId: string): TokenClaims | null {
  const { sub, aud, act, iat, exp, chk, seats, upd, entitlements, nonce } = payload
  const { plan_id: planId, status, fingerprint } = payload
  if (!isString(sub) || !isString(act)) return null
  if (aud !== appId && !(Array.isArray(aud) && aud.includes(appId))) return null
  if (!isUnixTime(iat) || !isUnixTime(exp) || !isUnixTime(chk) || chk <= 0) return null
  if (!isObject(entitlements) || !isStrings(Object.values(entitlements))) return null
  const issuedAt = iat * 1000
  const expiresAt = exp * 1000
  const offline = payload['offline'] === true
  return {
    licenceId: sub,
    activationId: act,
    planId: isString(planId) ? planId : null,
    licenceStatus: isString(status) ? status : null,
    issuedAt,
    expiresAt,
    refreshAfter: offline ? expiresAt : issuedAt + (expiresAt - issuedAt) / 2,
    checkIntervalMs: Math.min(chk, MAX_CHECK_INTERVAL_S) * 1000,
    seats: typeof seats === 'number' ? seats : null,
    updatesUntil: isUnixTime(upd) ? upd * 1000 : null,
    entitlements: entitlements as Record<string, string>,
    offline,
    fingerprint: isString(fingerprint) ? fingerprint : null,
    nonce: isString(nonce) ? nonce : null,
  }
}

const INTEGER = /^(0|-?[1-9][0-9]{0,14})$/

export function featureOf(claims: TokenClaims, key: string): boolean {
  return claims.entitlements[key] === 'true'
}

export function limitOf(claims: TokenClaims, key: string): number {
  const value = claims.entitlements[key] ?? ''
  return INTEGER.test(value) ? Number(value) : 0
}

// Revocation lists

/** The content of a signed revocation list. */
export interface RevocationList {
  readonly jws: string
  readonly version: number
  /** The version after which it lists additions; null for the whole list. */
  readonly since: number | null
  readonly revoked: readonly string[]
  /** The list goes on after `version`: the rest is requested with it. */
  readonly more: boolean
  readonly issuedAt: number
  readonly expiresAt: number
}

export async function readList(
  jws: string,
  keys: Keys | null,
  appId: string,
): Promise<RevocationList | Unreadable> {
  const payload = await verify(jws, keys?.keys ?? [])
  if (isString(payload)) return payload
  const { app_id: app, version, since, revoked, more = false, iat, exp } = payload
  if (app !== appId || !isCount(version) || !isStrings(revoked)) return 'forged'
  if (!isUnixTime(iat) || !isUnixTime(exp) || typeof more !== 'boolean') return 'forged'
  if (since !== null && since !== undefined && !isCount(since)) return 'forged'
  // A list since version 0 is complete.
  return { jws, version, since: since || null, revoked, more, issuedAt: iat * 1000, expiresAt: exp * 1000 }
}

// Offline files

/** The token of an offline file, with the keys of the file, if it is for this installation; else why it is refused. */
export async function readFile(
  text: unknown,
  { appId, fingerprint, trust }: Identity,
  held: {
    readonly keys: Keys | null
    readonly current: TokenClaims | null
    readonly timeFor: (jws: string) => number
  },
): Promise<{ readonly jws: string; readonly claims: TokenClaims; readonly fileKeys: Keys } | FileRefusal> {
  if (trust === 'unpinned') return 'root_key_required'
  const file = partsOfFile(text)
  if (!file) return 'file_malformed'
  const { jws } = file
  const claimed = unverified(jws)
  // This check only gives a better reason: a file of another application would not verify either.
  if (isString(claimed?.['aud']) && claimed['aud'] !== appId) return 'file_of_another_application'
  const keys = await readKeysOfFile(file.signed, trust, appId)
  if (isString(keys)) return keys
  if (isWithdrawn(jws, keys, held.keys)) return 'keys_outdated'
  const time = held.timeFor(jws)
  // The token must be authentic before its fingerprint and its end are compared, for a reason that is true.
  const machine = claimed?.['fingerprint']
  const claims = await readClaims(jws, keys, {
    appId,
    fingerprint: isString(machine) ? machine : fingerprint,
    time: -Infinity,
  })
  if (claims === 'unsupported_runtime') return claims
  if (isString(claims)) return 'untrusted_signature'
  return refusalOfFile(claims, keys, time) ?? { jws, claims, fileKeys: keys }

  function refusalOfFile(token: TokenClaims, { expiresAt }: Keys, now: number): FileRefusal | null {
    if (!token.offline) return 'file_malformed'
    if (token.fingerprint !== fingerprint) return 'file_of_another_machine'
    if (Math.min(token.expiresAt, expiresAt) <= now) return 'file_expired'
    const { current } = held
    const replaces =
      current?.offline && current.expiresAt > now && current.activationId === token.activationId
    return replaces && current.issuedAt > token.issuedAt ? 'file_outdated' : null
  }
}

/** The first key set of an offline file that is signed with a root key; else why there is none. */
async function readKeysOfFile(
  signed: readonly string[],
  roots: readonly PublicKey[],
  appId: string,
): Promise<Keys | 'untrusted_keys' | 'unsupported_runtime'> {
  let refusal: 'untrusted_keys' | 'unsupported_runtime' = 'untrusted_keys'
  for (const jws of signed) {
    const keys = await readSignedKeys(jws, roots, appId)
    if (!isString(keys)) return keys
    if (keys === 'unsupported_runtime') refusal = keys
  }
  return refusal
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
 * The token and the signed key sets in an offline licence file, the first one in the text; null if there is none. Around it
 * may be any text. Inside, a mail program may have wrapped and quoted lines, and added blanks and invisible characters.
 */
function partsOfFile(text: unknown): { readonly jws: string; readonly signed: readonly string[] } | null {
  if (!isString(text)) return null
  const [, content = ''] = FILE.exec(text.replace(INVISIBLE, '')) ?? []
  const joined = content.replace(MAIL_MARKS, '').replace(/\s/g, '')
  const [jws, ...signed] = joined.match(JWS) ?? []
  if (jws === undefined || signed.length === 0 || [jws, ...signed].join('') !== joined) return null
  return { jws, signed }
}
