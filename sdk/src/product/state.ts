import type { components } from '../backend/gen/api.ts'
import type { SeenTime } from './trusted-time.ts'
import type { TokenClaims } from './token.ts'

/**
 * What the product may do, in one word.
 *
 * - `starting`: the store has not been read yet; nothing is granted.
 * - `licensed`: a good token; features and limits are answered from it.
 * - `grace`: still a good token, but it will not be followed by another as things stand: the service refused to
 *   renew it, or renewal is overdue because the service cannot be reached. All is granted until `expiresAt`.
 * - `lapsed`: the token's end has passed and the service could not be asked for another. Nothing is granted.
 * - `refused`: the service said no, and no good token is left (or the licence is revoked). Nothing is granted.
 * - `unlicensed`: there is no token. Nothing is granted.
 */
export type LicenceClientStatus = 'starting' | 'licensed' | 'grace' | 'lapsed' | 'refused' | 'unlicensed'

/** The service could not be asked, or did not answer sensibly: worth another try later. */
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

/** The service was asked, and said no. A licence's status and its domains are its own; others of that kind may come. */
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

/** Why an offline licence file was not taken. */
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

/** Why there is no token, before anything was asked. */
export type AbsenceReason =
  | FileRefusal
  | 'not_activated'
  | 'no_licence_key'
  | 'deactivated'
  | 'released'
  | 'fingerprint_changed'
  | 'licence_key_changed'
  | 'store_corrupt'

/** Why the status is what it is; `token_expired` where a token ended and nothing else is known. */
export type Reason = FailureReason | RefusalReason | AbsenceReason | 'token_expired'

/** What went wrong in the last contact of its kind, for a log or a support page; never needed for a decision. */
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

/** Everything a product may want to know about its licence. A plain value: it does not change after it was given. */
export interface LicenceState {
  readonly status: LicenceClientStatus
  /** Whether features and limits are granted now: `status` is `licensed` or `grace`. */
  readonly usable: boolean
  /** Null when `licensed` or `starting`. */
  readonly reason: Reason | null
  readonly licenceId: string | null
  readonly activationId: string | null
  readonly planId: string | null
  /** What the service said the licence was when it signed the token: `active` or `downgraded`. */
  readonly licenceStatus: string | null
  /** The number of seats the product should enforce; null for no such limit. */
  readonly seats: number | null
  /** The product may be updated to releases until this time, ISO 8601 UTC; null: to all. See `covers`. */
  readonly updatesUntil: string | null
  /** The token's end, ISO 8601 UTC; null without a token. */
  readonly expiresAt: string | null
  /** Half of the token's life: from then on it is renewed. An offline token's end. ISO 8601 UTC. */
  readonly refreshAfter: string | null
  /** The token came in a file, by `activateOffline`. */
  readonly offline: boolean
  /** `current`: looked at within two check intervals; `stale`: longer ago; `unknown`: none held. */
  readonly revocations: 'current' | 'stale' | 'unknown'
  /** The local clock was turned back, and no token has been issued since. Time goes on from where it stood. */
  readonly clockTurnedBack: boolean
  /** The most recent thing that went wrong and has not gone right since. */
  readonly problem: Problem | null
}

/** What the judgement rests on. */
export interface Evidence {
  readonly loaded: boolean
  /** The claims of the authentic token held, ended or not. */
  readonly claims: TokenClaims | null
  /** An authentic revocation list names the licence. */
  readonly revoked: boolean
  /** The last answer was a no. */
  readonly refusal: RefusalReason | null
  /** The last try to get a token failed. */
  readonly failure: FailureReason | null
  readonly absence: AbsenceReason
}

export interface Judgement {
  readonly status: LicenceClientStatus
  readonly reason: Reason | null
}

/** The table of states: the first line that applies is the answer. `time` is the trusted time in milliseconds. */
export function judge(evidence: Evidence, time: number): Judgement {
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
  const { status, reason } = judge(evidence, seen.time)
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
