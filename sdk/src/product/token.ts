import { isObject, isUnixTime } from './shape.ts'

/** The claims of a token, with times in milliseconds since 1970 UTC. */
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

/** Reads an authentic payload; null if it is not a token of this application. */
export function readToken(payload: Readonly<Record<string, unknown>>, appId: string): TokenClaims | null {
  const {
    sub,
    aud,
    act,
    iat,
    exp,
    chk,
    seats,
    upd,
    entitlements,
    plan_id: planId,
    status,
    fingerprint,
    nonce,
  } = payload
  if (typeof sub !== 'string' || typeof act !== 'string') return null
  if (aud !== appId && !(Array.isArray(aud) && aud.includes(appId))) return null
  if (!isUnixTime(iat) || !isUnixTime(exp) || !isUnixTime(chk) || chk <= 0 || !isValues(entitlements))
    return null
  const issuedAt = iat * 1000
  const expiresAt = exp * 1000
  const offline = payload['offline'] === true
  return {
    licenceId: sub,
    activationId: act,
    planId: typeof planId === 'string' ? planId : null,
    licenceStatus: typeof status === 'string' ? status : null,
    issuedAt,
    expiresAt,
    refreshAfter: offline ? expiresAt : issuedAt + (expiresAt - issuedAt) / 2,
    checkIntervalMs: Math.min(chk, MAX_CHECK_INTERVAL_S) * 1000,
    seats: typeof seats === 'number' ? seats : null,
    updatesUntil: isUnixTime(upd) ? upd * 1000 : null,
    entitlements,
    offline,
    fingerprint: typeof fingerprint === 'string' ? fingerprint : null,
    nonce: typeof nonce === 'string' ? nonce : null,
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

function isValues(value: unknown): value is Record<string, string> {
  return isObject(value) && Object.values(value).every((entry) => typeof entry === 'string')
}
