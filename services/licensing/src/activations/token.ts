import type { MessageInitShape } from '@bufbuild/protobuf'
import { timestampFromDate } from '@bufbuild/protobuf/wkt'
import { isId } from '@licensing/database/ids'
import type { TokenGrantSchema } from '@licensing/proto/products'
import { decodeJwt, decodeProtectedHeader, jwtVerify, SignJWT } from 'jose'
import type { JWTPayload } from 'jose'
import { randomUUID } from 'node:crypto'
import { algorithm } from '../signing-keys/new-signing-key.ts'
import type { KeySet, SigningKeys } from '../signing-keys/signing-keys.ts'
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
  expiresOn: Date | null
  /** Null if the licence is not floating. */
  leaseEndsAt: Date | null
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
  const grant = await grantToken(subject, await keys.of(licence.application_id), tokens, now)
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
  { activationId, licence, leaseEndsAt }: Granted,
): Promise<TokenSubject> {
  return {
    activationId,
    licenceId: licence.id,
    applicationId: licence.application_id,
    planId: licence.plan_id,
    status: licence.status,
    entitlements: await snapshots.valuesOf(licence),
    seats: licence.max_seats,
    expiresOn: licence.expires_on,
    leaseEndsAt,
  }
}

/**
 * The end of a token that is granted now, a whole second.
 *
 * @param bounds it is not later than any of these: the licence's end (decisions 4), the lease's (additions 14.7)
 */
export function tokenEnd(bounds: readonly (Date | null)[], lifeSeconds: number, now: Date): Date {
  const boundsMs = bounds.map((bound) => bound?.getTime() ?? Number.POSITIVE_INFINITY)
  return new Date(Math.floor(Math.min(now.getTime() + lifeSeconds * 1000, ...boundsMs) / 1000) * 1000)
}

/** Signs a token. The product should refresh it after half of its life. */
export async function grantToken(
  subject: TokenSubject,
  keys: KeySet,
  settings: TokenSettings,
  now: Date,
): Promise<Grant> {
  const issuedAt = Math.floor(now.getTime() / 1000)
  const expiresAt =
    tokenEnd([subject.expiresOn, subject.leaseEndsAt], settings.lifeSeconds, now).getTime() / 1000
  const claims = {
    act: subject.activationId,
    plan_id: subject.planId,
    status: subject.status,
    entitlements: subject.entitlements,
    seats: subject.seats,
    chk: settings.checkIntervalSeconds,
    ...(subject.offline && { offline: true, fingerprint: subject.offline.fingerprint }),
    ...(subject.nonce !== undefined && { nonce: subject.nonce }),
  }
  const token = await new SignJWT(claims)
    .setProtectedHeader({ alg: algorithm, typ: 'JWT', kid: keys.kid })
    .setIssuer(settings.issuer)
    .setSubject(subject.licenceId)
    .setAudience(subject.applicationId)
    .setJti(randomUUID())
    .setIssuedAt(issuedAt)
    .setExpirationTime(expiresAt)
    .sign(keys.signingKey)
  return {
    token,
    expiresAt: new Date(expiresAt * 1000),
    refreshAfter: new Date((issuedAt + (expiresAt - issuedAt) / 2) * 1000),
  }
}

/** The claims of a token, expired or not; undefined if none of its application's keys signed it. */
export async function readToken(token: string, keys: SigningKeys): Promise<JWTPayload | undefined> {
  const named = namedKey(token)
  const key = named && (await keys.verifyingKey(named.applicationId, named.kid))
  if (!key) return undefined
  // An expired token is accepted, so it is verified as of 1970.
  const options = { algorithms: [algorithm], currentDate: new Date(0) }
  return jwtVerify(token, key, options).then(
    ({ payload }) => payload,
    () => undefined,
  )
}

function namedKey(token: string): { applicationId: string; kid: string } | undefined {
  try {
    const { kid } = decodeProtectedHeader(token)
    const { aud } = decodeJwt(token)
    if (kid === undefined || typeof aud !== 'string' || !isId('app', aud)) return undefined
    return { applicationId: aud, kid }
  } catch {
    return undefined
  }
}
