import { isCount, isStrings, isUnixTime } from './shape.ts'

/** The content of a signed revocation list, with times in milliseconds since 1970 UTC. */
export interface RevocationList {
  readonly version: number
  /** The version after which it lists additions; null for the whole list. */
  readonly since: number | null
  readonly revoked: readonly string[]
  /** The list goes on after `version`: the rest is requested with it. */
  readonly more: boolean
  readonly issuedAt: number
  readonly expiresAt: number
}

/** Reads an authentic payload; null if it is not a revocation list of this application. */
export function readRevocationList(
  payload: Readonly<Record<string, unknown>>,
  appId: string,
): RevocationList | null {
  const { app_id: app, version, since, revoked, more = false, iat, exp } = payload
  if (app !== appId || !isCount(version) || !isStrings(revoked)) return null
  if (!isUnixTime(iat) || !isUnixTime(exp) || typeof more !== 'boolean') return null
  if (since !== null && since !== undefined && !isCount(since)) return null
  // A list since version 0 is complete.
  return { version, since: since || null, revoked, more, issuedAt: iat * 1000, expiresAt: exp * 1000 }
}

/** Largest accepted difference between the service's clock and the trusted time. */
const TOLERANCE_MS = 300_000

export type Acceptance = 'accepted' | 'list_expired' | 'list_outdated' | 'list_gap'

/**
 * Whether an authentic list may replace the current one, which has version `held`. A licence that it names is revoked in
 * any case: a revocation is permanent, so an old list proves it as well as a new one.
 */
export function checkList(list: RevocationList, currentVersion: number | null, time: number): Acceptance {
  if (list.expiresAt + TOLERANCE_MS <= time) return 'list_expired'
  if (currentVersion !== null && list.version < currentVersion) return 'list_outdated'
  if (list.since !== null && (currentVersion === null || list.since > currentVersion)) return 'list_gap'
  return 'accepted'
}
