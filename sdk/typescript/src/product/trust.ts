import type { FileRefusal } from './reasons.ts'
import {
  hasFields,
  isBoolean,
  isCount,
  isObject,
  isString,
  isStrings,
  isUnixTime,
  readTimestamp,
} from './shape.ts'
import { decode, verify, type PublicKey, type Unreadable } from './signature.ts'
import type { SeenTime } from './time.ts'

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
  identity: Identity,
  current: Keys | null,
  time: number,
): Promise<Keys | KeysRefusal> {
  if (!isKeySet(body)) return 'unexpected_answer'
  if (identity.trust === 'unpinned') return unsignedKeys(body, time)
  const { signed } = body as { signed?: unknown }
  return readSignedKeys(Array.isArray(signed) ? signed.filter(isString) : [], identity, (keys) => {
    if (!isFromService(keys)) return 'untrusted_keys'
    if (keys.expiresAt <= time) return 'keys_expired'
    return current && keys.issuedAt < current.issuedAt ? 'keys_outdated' : null
  })
}

/** The keys in the store, verified like those of the service, but for their age; null if there are none. */
export async function readStoredKeys(
  stored: { readonly signed_keys: string | null; readonly jwks: KeySet | null; readonly jwks_at: string },
  identity: Identity,
): Promise<Keys | null> {
  if (identity.trust === 'unpinned')
    return stored.jwks && unsignedKeys(stored.jwks, readTimestamp(stored.jwks_at))
  if (stored.signed_keys === null) return null
  const keys = await readSignedKeys([stored.signed_keys], identity)
  return isString(keys) || !isFromService(keys) ? null : keys
}

export interface KeySet {
  readonly keys: readonly PublicKey[]
}

export function isKeySet(value: unknown): value is KeySet {
  return isObject(value) && isKeys(value['keys'])
}

const isKeys = (value: unknown): value is PublicKey[] => Array.isArray(value) && value.every(isObject)

function unsignedKeys({ keys }: KeySet, receivedAt: number): Keys {
  return { jws: null, keys, issuedAt: receivedAt, expiresAt: Infinity }
}

const isSignedKeySet = hasFields({ app_id: isString, keys: isKeys, iat: isUnixTime, exp: isUnixTime })

/** The first of several sets that a root key has signed and `refuse` accepts; else the most telling refusal. */
async function readSignedKeys<Refusal extends string = never>(
  signed: readonly string[],
  { trust, appId }: Identity,
  refuse: (keys: Keys) => Refusal | null = () => null,
): Promise<Keys | Refusal | 'untrusted_keys' | 'unsupported_runtime'> {
  let refusal: Refusal | 'untrusted_keys' | 'unsupported_runtime' = 'untrusted_keys'
  for (const jws of signed) {
    const payload = await verify(jws, trust === 'unpinned' ? [] : trust)
    if (payload === 'unsupported_runtime') refusal = payload
    if (isString(payload) || !isSignedKeySet(payload) || payload.app_id !== appId) continue
    const { keys, iat, exp } = payload
    const set = { jws, keys, issuedAt: iat * 1000, expiresAt: exp * 1000 }
    const problem = refuse(set)
    if (problem === null) return set
    if (problem !== 'untrusted_keys') refusal = problem
  }
  return refusal
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
  const kid = decode(jws)?.header['kid']
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

/** Reads a token at `time`: it must be for this installation. */
export async function readToken(
  jws: string,
  keys: Keys | null,
  { appId, fingerprint }: Pick<Identity, 'appId' | 'fingerprint'>,
  time: number,
): Promise<TokenClaims | Unreadable> {
  const payload = await verify(jws, keys?.keys ?? [])
  if (isString(payload)) return payload
  const claims = claimsIn(payload, appId)
  if (!claims || (claims.fingerprint !== null && claims.fingerprint !== fingerprint)) return 'forged'
  return isInTime(keys, claims, time) ? claims : 'unknown_key'
}

/** Reads the token of the store, with the keys of the service or of the file that it came in. */
export async function readStoredToken(
  stored: { readonly token: string; readonly file_keys: string | null; readonly fingerprint: string },
  keys: Keys | null,
  identity: Identity,
  time: number,
): Promise<{ readonly claims: TokenClaims; readonly fileKeys: Keys | null } | null> {
  const { token: jws, file_keys: signed, fingerprint } = stored
  const fileKeys = signed === null ? null : await readSignedKeys([signed], identity)
  if (isString(fileKeys) || (fileKeys && isWithdrawn(jws, fileKeys, keys))) return null
  const claims = await readToken(jws, fileKeys ?? keys, { ...identity, fingerprint }, time)
  return isString(claims) || (fileKeys && !claims.offline) ? null : { claims, fileKeys }
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

const isList = hasFields({
  app_id: isString,
  version: isCount,
  since: (value): value is number | null | undefined =>
    value === null || value === undefined || isCount(value),
  revoked: isStrings,
  more: (value): value is boolean | undefined => value === undefined || isBoolean(value),
  iat: isUnixTime,
  exp: isUnixTime,
})

/** Reads a signed revocation list, of whatever age. */
export async function readList(
  jws: string,
  keys: Keys | null,
  appId: string,
): Promise<RevocationList | Unreadable> {
  const payload = await verify(jws, keys?.keys ?? [])
  if (isString(payload)) return payload
  if (!isList(payload) || payload.app_id !== appId) return 'forged'
  const { version, since, revoked, more = false, iat, exp } = payload
  // A list since version 0 is complete.
  return { jws, version, since: since || null, revoked, more, issuedAt: iat * 1000, expiresAt: exp * 1000 }
}

// Offline files

/**
 * The time at which an answer to a request with `nonce` is checked. A token with this nonce was issued after the request:
 * if the trusted time is ahead of the clock, the clock counts. Nothing is verified here.
 */
export function timeFor({ time, local }: SeenTime, jws: string, nonce: string | null): number {
  const { nonce: repeated, iat } = decode(jws)?.claims ?? {}
  return nonce !== null && repeated === nonce && isUnixTime(iat) ? Math.max(local, iat * 1000) : time
}

/** The knowledge with which a file is compared. */
interface Comparison {
  readonly keys: Keys | null
  readonly current: TokenClaims | null
  readonly time: SeenTime
  readonly nonce: string | null
}

/** The token of an offline file, with the keys of the file, if it is for this installation; else why it is refused. */
export async function readFile(
  text: unknown,
  identity: Identity,
  { keys, current, time, nonce }: Comparison,
): Promise<{ readonly jws: string; readonly claims: TokenClaims; readonly fileKeys: Keys } | FileRefusal> {
  if (identity.trust === 'unpinned') return 'root_key_required'
  const [jws, ...signed] = textsInFile(text)
  if (jws === undefined || signed.length === 0) return 'file_malformed'
  const { aud, fingerprint } = decode(jws)?.claims ?? {}
  // This check only gives a better reason: a file of another application would not verify either.
  if (isString(aud) && aud !== identity.appId) return 'file_of_another_application'
  const fileKeys = await readSignedKeys(signed, identity)
  if (isString(fileKeys)) return fileKeys
  if (isWithdrawn(jws, fileKeys, keys)) return 'keys_outdated'
  // The token must be authentic before its fingerprint and its end are compared, for a reason that is true.
  const ofAnyMachine = { ...identity, ...(isString(fingerprint) && { fingerprint }) }
  const claims = await readToken(jws, fileKeys, ofAnyMachine, -Infinity)
  if (isString(claims)) return claims === 'unsupported_runtime' ? claims : 'untrusted_signature'
  if (!claims.offline) return 'file_malformed'
  if (claims.fingerprint !== identity.fingerprint) return 'file_of_another_machine'
  const now = timeFor(time, jws, nonce)
  if (Math.min(claims.expiresAt, fileKeys.expiresAt) <= now) return 'file_expired'
  const isOutdated =
    current !== null &&
    current.offline &&
    current.expiresAt > now &&
    current.activationId === claims.activationId &&
    current.issuedAt > claims.issuedAt
  return isOutdated ? 'file_outdated' : { jws, claims, fileKeys }
}

/** Word processors and mail programs replace hyphens by other dashes. */
const DASHES = /[\u2010-\u2015\u2212]/g
/** White space, marks of quoted and wrapped lines, and what else stands between the characters of a file. */
const NOISE = /[^\w.-]/g
/** A compact JWS with a signature of 64 bytes (Ed25519), so that its end is known without the end of a line. */
const JWS = /[\w-]+\.[\w-]+\.[\w-]{86}/gy

/**
 * The signed texts of an offline licence file, the first one in the text: the token and the key sets. Each step takes a time that
 * grows with the length of the text only, whatever somebody pasted.
 */
function textsInFile(text: unknown): readonly string[] {
  if (!isString(text)) return []
  const plain = text.replace(DASHES, '-').replace(NOISE, '')
  const [, content = '', end] = plain.split(/-(?:BEGIN|END)LICENCE/i, 3)
  const signed = content.replace(/^-+/, '')
  const texts = signed.match(JWS) ?? []
  const isWhole = end !== undefined && /^-*$/.test(signed.slice(texts.join('').length))
  return isWhole ? texts : []
}
