import type { components } from '../backend/gen/api.ts'
import type { SeenTime } from './trusted-time.ts'
import type { TokenClaims } from './token.ts'

/**
 * The status of the licence in the product.
 *
 * - `starting`: the store has not been read yet; nothing is granted.
 * - `licensed`: the token is valid; it determines features and limits.
 * - `grace`: the token is still valid, but is not being renewed: the service refused to
 *   renew it, or renewal is overdue because the service cannot be reached. All is granted until `expiresAt`.
 * - `lapsed`: the token has ended and the service could not be asked for a new one. Nothing is granted.
 * - `refused`: the service refused, and there is no valid token (or the licence is revoked). Nothing is granted.
 * - `unlicensed`: there is no token. Nothing is granted.
 */
export type LicenceClientStatus = 'starting' | 'licensed' | 'grace' | 'lapsed' | 'refused' | 'unlicensed'

/** The service could not be reached, or gave no valid answer. A later try may succeed. */
export type FailureReason =
  | 'unreachable'
  | 'timeout'
  | 'unavailable'
  | 'rate_limited'
  | 'unexpected_answer'
  | 'untrusted_signature'
  | 'untrusted_keys'
  | 'keys_expired'
  | 'keys_outdated'
  | 'unsupported_runtime'

/** The service refused. Statuses of licences and refusals may be added over time. */
export type RefusalReason =
  | Exclude<components['schemas']['Licence']['status'], 'active' | 'downgraded'>
  | 'domain_not_allowed'
  | 'limit_reached'
  | 'no_place'
  | 'quota_exceeded'
  | 'trial_used'
  | 'unknown_plan'
  | 'plan_archived'
  | 'unknown_licence_key'
  | 'unknown_legacy_key'
  | 'activation_freed'
  | 'token_rejected'
  | 'invalid_request'
  | (string & {})

/** Why an offline licence file was refused. */
export type FileRefusal =
  | 'root_key_required'
  | 'file_malformed'
  | 'file_of_another_application'
  | 'file_of_another_machine'
  | 'file_expired'
  | 'file_outdated'
  | 'keys_outdated'
  | 'untrusted_keys'
  | 'untrusted_signature'
  | 'unsupported_runtime'

/** Why there is no token, before the service was asked. */
export type AbsenceReason =
  | FileRefusal
  | 'not_activated'
  | 'no_licence_key'
  | 'deactivated'
  | 'released'
  | 'fingerprint_changed'
  | 'licence_key_changed'
  | 'store_corrupt'

/** The reason for the status; `token_expired` if a token has ended and no other reason is known. */
export type Reason = FailureReason | RefusalReason | AbsenceReason | 'token_expired'

/** The problem in the last contact of its kind, for a log or a support page; never needed for a decision. */
export interface Problem {
  readonly operation:
    | 'activate'
    | 'activate_offline'
    | 'refresh'
    | 'check'
    | 'migrate'
    | 'start_trial'
    | 'release'
    | 'deactivate'
    | 'call_home'
    | 'store'
    | 'internal'
  readonly code: string
  readonly detail: string
  /** ISO 8601, UTC. */
  readonly at: string
}

/** Everything that a product may need to know about its licence. A plain object, which does not change. */
export interface LicenceState {
  readonly status: LicenceClientStatus
  /** Whether features and limits are granted now: `status` is `licensed` or `grace`. */
  readonly usable: boolean
  /** Null when `licensed` or `starting`. */
  readonly reason: Reason | null
  readonly licenceId: string | null
  readonly activationId: string | null
  readonly planId: string | null
  /** The status of the licence when the service signed the token: `active` or `downgraded`. */
  readonly licenceStatus: string | null
  /** The number of seats the product should enforce; null for no such limit. */
  readonly seats: number | null
  /** The product may be updated to releases until this time, ISO 8601 UTC; null: to all. See `covers`. */
  readonly updatesUntil: string | null
  /** The token's end, ISO 8601 UTC; null without a token. */
  readonly expiresAt: string | null
  /** Half of the token's life, when renewal begins; for an offline token its end. ISO 8601 UTC. */
  readonly refreshAfter: string | null
  /** Whether the token came in a file, by `activateOffline`. */
  readonly offline: boolean
  /** The list was checked within two check intervals (`current`), longer ago (`stale`), or there is no list (`unknown`). */
  readonly revocations: 'current' | 'stale' | 'unknown'
  /** The local clock was turned back, and no token has been issued since. The trusted time continues from its last value. */
  readonly clockTurnedBack: boolean
  /** The most recent problem, unless a later success has ended it. */
  readonly problem: Problem | null
}

/** The data that determines the status. */
export interface Evidence {
  readonly loaded: boolean
  /** The claims of the authentic token, even if it has ended. */
  readonly claims: TokenClaims | null
  /** Whether an authentic revocation list names the licence. */
  readonly revoked: boolean
  /** The last answer, if it was a refusal. */
  readonly refusal: RefusalReason | null
  /** The reason, if the last try to get a token failed. */
  readonly failure: FailureReason | null
  readonly absence: AbsenceReason
}

export interface StatusWithReason {
  readonly status: LicenceClientStatus
  readonly reason: Reason | null
}

/** The table of states: the first line that applies decides. `time` is the trusted time in milliseconds. */
export function determineStatus(evidence: Evidence, time: number): StatusWithReason {
  const { claims, refusal, failure, absence } = evidence
  if (!evidence.loaded) return { status: 'starting', reason: null }
  if (evidence.revoked || refusal === 'revoked') return { status: 'refused', reason: 'revoked' }
  if (!claims && refusal) return { status: 'refused', reason: refusal }
  if (!claims) return { status: 'unlicensed', reason: failure ?? absence }
  if (time >= claims.expiresAt && refusal) return { status: 'refused', reason: refusal }
  if (time >= claims.expiresAt) return { status: 'lapsed', reason: failure ?? 'token_expired' }
  if (refusal) return { status: 'grace', reason: refusal }
  if (failure && time >= claims.refreshAfter) return { status: 'grace', reason: failure }
  return { status: 'licensed', reason: null }
}

/** Whether a status grants features and limits. */
export function grants(status: LicenceClientStatus): boolean {
  return status === 'licensed' || status === 'grace'
}

export function describe(
  evidence: Evidence,
  seen: SeenTime,
  revocations: LicenceState['revocations'],
  problem: Problem | null,
): LicenceState {
  const { status, reason } = determineStatus(evidence, seen.time)
  const { claims } = evidence
  return {
    status,
    usable: grants(status),
    reason,
    licenceId: claims?.licenceId ?? null,
    activationId: claims?.activationId ?? null,
    planId: claims?.planId ?? null,
    licenceStatus: claims?.licenceStatus ?? null,
    seats: claims?.seats ?? null,
    updatesUntil: textOf(claims?.updatesUntil),
    expiresAt: textOf(claims?.expiresAt),
    refreshAfter: textOf(claims?.refreshAfter),
    offline: claims?.offline ?? false,
    revocations,
    clockTurnedBack: seen.turnedBack,
    problem,
  }
}

function textOf(time: number | null | undefined): string | null {
  return time === null || time === undefined ? null : new Date(time).toISOString()
}
