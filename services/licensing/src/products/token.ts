import { decodeProtectedHeader, jwtVerify, SignJWT } from 'jose'
import { randomUUID } from 'node:crypto'
import type { SnapshotEntitlement } from '../plans/snapshot.ts'
import type { KeySet } from './signing-keys.ts'

export interface TokenSettings {
  issuer: string
  lifeSeconds: number
  checkIntervalSeconds: number
}

/** What a token tells the product. */
export interface TokenSubject {
  activationId: string
  licenceId: string
  applicationId: string
  planId: string
  /** active or downgraded. */
  status: string
  entitlements: SnapshotEntitlement[]
  seats: number | null
  expiresOn: Date | null
}

export interface Grant {
  token: string
  expiresAt: Date
  refreshAfter: Date
}

/** Signs a token. It never outlives the licence (decisions 4), and is to be renewed at half of its life. */
export async function grantToken(
  subject: TokenSubject,
  keys: KeySet,
  settings: TokenSettings,
  now: Date,
): Promise<Grant> {
  const issuedAt = Math.floor(now.getTime() / 1000)
  const licenceEnd = subject.expiresOn
    ? Math.floor(subject.expiresOn.getTime() / 1000)
    : Number.POSITIVE_INFINITY
  const expiresAt = Math.min(issuedAt + settings.lifeSeconds, licenceEnd)
  // A downgraded licence works on the defaults; its snapshot stays as it was captured.
  const downgraded = subject.status === 'downgraded'
  const entitlements = Object.fromEntries(
    subject.entitlements.map((entitlement) => [
      entitlement.key,
      downgraded ? entitlement.default : entitlement.value,
    ]),
  )
  const claims = {
    act: subject.activationId,
    plan_id: subject.planId,
    status: subject.status,
    entitlements,
    seats: subject.seats,
    chk: settings.checkIntervalSeconds,
  }
  const token = await new SignJWT(claims)
    .setProtectedHeader({ alg: 'EdDSA', typ: 'JWT', kid: keys.kid })
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
    refreshAfter: new Date((issuedAt + Math.floor((expiresAt - issuedAt) / 2)) * 1000),
  }
}

/** Whether a token is this activation's own, signed by one of these keys. Its age does not count. */
export async function isTokenOf(
  activation: { id: string; licence_id: string; application_id: string },
  token: string,
  keys: KeySet,
): Promise<boolean> {
  try {
    const key = keys.verifyingKeys.get(decodeProtectedHeader(token).kid ?? '')
    if (!key) return false
    // Looked at as of the epoch: an expired token is accepted, only its signature and its subject count.
    const { payload } = await jwtVerify(token, key, {
      algorithms: ['EdDSA'],
      audience: activation.application_id,
      subject: activation.licence_id,
      currentDate: new Date(0),
    })
    return payload.act === activation.id
  } catch {
    return false
  }
}
