import type { MessageInitShape } from '@bufbuild/protobuf'
import { timestampFromDate } from '@bufbuild/protobuf/wkt'
import { isId } from '@licensing/database/ids'
import type { TokenGrantSchema } from '@licensing/proto/products'
import { decodeJwt, decodeProtectedHeader } from 'jose'
import type { JWTPayload } from 'jose'
import { randomUUID, sign, timingSafeEqual } from 'node:crypto'
import type { KeyObject } from 'node:crypto'
import { algorithm } from '../signing-keys/new-signing-key.ts'
import type { KeySet, SigningKeys } from '../signing-keys/signing-keys.ts'
import { statuses } from '../lifecycle/licence.ts'
import type { CurrentOverride } from '../overrides/override.ts'
import type { Snapshots } from '../plans/snapshots.ts'
import type { ProductLicence } from './activation-queries.ts'

export interface TokenSettings {
  issuer: string
  lifeSeconds: number
  checkIntervalSeconds: number
}

/** The content of a token. */
export interface TokenSubject {
  activationId: string
  licenceId: string
  applicationId: string
  planId: string
  /** `active` or `downgraded`. */
  status: string
  entitlements: Readonly<Record<string, string>>
  seats: number | null
  /** When updates of the product end. */
  updatesUntil: Date | null
  /** Times after which the token must not be valid. */
  ends: (Date | null)[]
  /** For a machine without a network: the token is valid only on the machine with this fingerprint. */
  offline?: { fingerprint: string }
  /** The request's nonce: it shows the product that the token is not an old, replayed answer. */
  nonce?: string | undefined
}

export interface Grant {
  token: string
  expiresAt: Date
  refreshAfter: Date
}

/** An activation of a licence that may run. */
export interface Granted {
  activationId: string
  licence: ProductLicence
  /** Null if the licence is not floating. */
  leaseEndsAt: Date | null
  now: Date
}

/** A new token for an activation of a licence that may run. */
export async function grantMessage(
  deps: { keys: SigningKeys; snapshots: Snapshots; tokens: TokenSettings },
  granted: Granted,
  nonce?: string,
): Promise<MessageInitShape<typeof TokenGrantSchema>> {
  const { keys, tokens } = deps
  const { activationId, licence, leaseEndsAt, now } = granted
  const subject = { ...(await tokenSubject(deps, granted)), nonce }
  const grant = grantToken(subject, await keys.of(licence.application_id), tokens, now)
  return {
    activationId,
    licenceId: licence.id,
    token: grant.token,
    expiresAt: timestampFromDate(grant.expiresAt),
    refreshAfter: timestampFromDate(grant.refreshAfter),
    checkIntervalSeconds: tokens.checkIntervalSeconds,
    ...(leaseEndsAt && { leaseEndsAt: timestampFromDate(leaseEndsAt) }),
  }
}

/** The content of a token of this activation. */
export async function tokenSubject(
  { snapshots }: { snapshots: Snapshots },
  { activationId, licence, leaseEndsAt, now }: Granted,
): Promise<TokenSubject> {
  return {
    activationId,
    licenceId: licence.id,
    applicationId: licence.application_id,
    planId: licence.plan_id,
    status: licence.status,
    entitlements: await snapshots.valuesOf({ ...licence, overrides: carriedOverrides(licence, now) }),
    seats: licence.max_seats,
    updatesUntil: licence.updates_until,
    ends: [latestEnd(licence, now), leaseEndsAt],
  }
}

/** The time after which no token that is granted now may be valid (docs/guides/products.md, "When changes reach the product"); null: there is none. */
export function latestEnd(licence: ProductLicence, now: Date): Date | null {
  const ends = [
    licence.expires_on?.getTime() ?? null,
    ...carriedOverrides(licence, now).map(({ ends_ms: end }) => end),
  ].filter((end) => end !== null)
  return ends.length === 0 ? null : new Date(Math.min(...ends))
}

/**
 * The overrides that a token granted now contains. An override in its last second is not among them: the token would have
 * ended at once, although the licence continues.
 */
function carriedOverrides({ status, overrides }: ProductLicence, now: Date): CurrentOverride[] {
  if (statuses[status].grants === 'defaults') return []
  return overrides.filter(({ ends_ms: end }) => end === null || wholeSecond(end) > now.getTime())
}

const wholeSecond = (ms: number) => Math.floor(ms / 1000) * 1000

/** The end of a token that is granted now, a whole second and not later than any of `ends`. */
export function tokenEnd(ends: readonly (Date | null)[], lifeSeconds: number, now: Date): Date {
  const endsMs = ends.map((end) => end?.getTime() ?? Number.POSITIVE_INFINITY)
  return new Date(wholeSecond(Math.min(now.getTime() + lifeSeconds * 1000, ...endsMs)))
}

/** Signs a token. The product should refresh it after half of its life. */
export function grantToken(subject: TokenSubject, keys: KeySet, settings: TokenSettings, now: Date): Grant {
  const issuedAt = Math.floor(now.getTime() / 1000)
  const expiresAt = tokenEnd(subject.ends, settings.lifeSeconds, now).getTime() / 1000
  const claims = {
    act: subject.activationId,
    plan_id: subject.planId,
    status: subject.status,
    entitlements: subject.entitlements,
    seats: subject.seats,
    upd: subject.updatesUntil && Math.floor(subject.updatesUntil.getTime() / 1000),
    chk: settings.checkIntervalSeconds,
    ...(subject.offline && { offline: true, fingerprint: subject.offline.fingerprint }),
    ...(subject.nonce !== undefined && { nonce: subject.nonce }),
    iss: settings.issuer,
    sub: subject.licenceId,
    aud: subject.applicationId,
    jti: randomUUID(),
    iat: issuedAt,
    exp: expiresAt,
  }
  return {
    token: signedJwt(claims, keys),
    expiresAt: new Date(expiresAt * 1000),
    refreshAfter: new Date((issuedAt + (expiresAt - issuedAt) / 2) * 1000),
  }
}

/** A signed JWT (RFC 7519). This takes 40 µs of CPU; `jose`, which uses Web Crypto, takes 60. */
function signedJwt(claims: JWTPayload, { kid, signingKey }: KeySet): string {
  const part = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')
  const signed = `${part({ alg: algorithm, typ: 'JWT', kid })}.${part(claims)}`
  return `${signed}.${signatureOf(signed, signingKey)}`
}

const signatureOf = (text: string, key: KeyObject) => sign(null, Buffer.from(text), key).toString('base64url')

/** The claims of a token, expired or not; undefined if none of its application's keys signed it. */
export async function readToken(token: string, keys: SigningKeys): Promise<JWTPayload | undefined> {
  const read = decoded(token)
  const key = read && (await keys.find(read.applicationId, read.kid))
  return key && isSignedBy(key, token) ? read.claims : undefined
}

/** A token's claims and key id, before its signature is checked. */
function decoded(token: string): { claims: JWTPayload; applicationId: string; kid: string } | undefined {
  try {
    const { kid } = decodeProtectedHeader(token)
    const claims = decodeJwt(token)
    if (kid === undefined || typeof claims.aud !== 'string' || !isId('app', claims.aud)) return undefined
    return { claims, applicationId: claims.aud, kid }
  } catch {
    return undefined
  }
}

/**
 * Whether this key signed the token. Ed25519 gives the same signature each time (RFC 8032), so signing again and comparing
 * takes 40 µs of CPU; `jwtVerify` takes 130.
 */
function isSignedBy(key: KeyObject, token: string): boolean {
  const end = token.lastIndexOf('.')
  const [expected, given] = [signatureOf(token.slice(0, end), key), token.slice(end + 1)].map((text) =>
    Buffer.from(text),
  )
  return expected!.length === given!.length && timingSafeEqual(expected!, given!)
}
