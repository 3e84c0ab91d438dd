import type { components } from '../backend/gen/api.ts'

/** The words of a state, each listed once. The README explains them; a test compares. */

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
export type LicenceClientStatus = (typeof statuses)[number]
export const statuses = ['starting', 'licensed', 'grace', 'lapsed', 'refused', 'unlicensed'] as const

/** The service could not be reached, or gave no valid answer. A later try may succeed. */
export type FailureReason = (typeof failureReasons)[number]
export const failureReasons = [
  'unreachable',
  'timeout',
  'unavailable',
  'rate_limited',
  'unexpected_answer',
  'untrusted_signature',
  'untrusted_keys',
  'keys_expired',
  'keys_outdated',
  'unsupported_runtime',
] as const

type RefusingStatus = Exclude<components['schemas']['Licence']['status'], 'active' | 'downgraded'>
const refusingStatuses = { suspended: 0, revoked: 0, expired: 0, retired: 0 } satisfies Record<
  RefusingStatus,
  0
>

/** The service refused. Statuses of licences and refusals may be added over time. */
export type RefusalReason = RefusingStatus | (typeof otherRefusals)[number] | (string & {})
const otherRefusals = [
  'domain_not_allowed',
  'limit_reached',
  'quota_exceeded',
  'no_place',
  'trial_used',
  'unknown_plan',
  'plan_archived',
  'unknown_licence_key',
  'unknown_legacy_key',
  'activation_freed',
  'token_rejected',
  'invalid_request',
] as const
export const refusalReasons: readonly RefusalReason[] = [...Object.keys(refusingStatuses), ...otherRefusals]

/** Why an offline licence file was refused. */
export type FileRefusal = keyof typeof FILE_REFUSALS
export const FILE_REFUSALS = {
  root_key_required: 'offline files need a client with a rootKey',
  file_malformed: 'the text is no offline licence file',
  file_of_another_application: 'the file was made for another application',
  file_of_another_machine: 'the file was made for another fingerprint',
  file_expired: 'the file is past its end',
  file_outdated: 'the file is older than the one in use',
  keys_outdated: 'the key that signed the file has been withdrawn',
  untrusted_keys: 'the file is not signed with a root key of this product',
  untrusted_signature: 'the token is not signed by a key of the file',
  unsupported_runtime: 'Web Crypto of this runtime does not support Ed25519',
}

/** Why there is no token, before the service was asked. */
export type AbsenceReason = FileRefusal | (typeof absenceReasons)[number]
export const absenceReasons = [
  'not_activated',
  'no_licence_key',
  'deactivated',
  'released',
  'fingerprint_changed',
  'licence_key_changed',
  'store_corrupt',
] as const

/** The reason for the status; `token_expired` if a token has ended and no other reason is known. */
export type Reason = FailureReason | RefusalReason | AbsenceReason | 'token_expired'

/** The codes of problems that are no reason of a state. */
export type ProblemCode = (typeof problemCodes)[number]
export const problemCodes = [
  'list_expired',
  'list_outdated',
  'list_gap',
  'store_failed',
  'unexpected_error',
] as const

/** The origin of a problem. */
export type Operation = (typeof operations)[number]
export const operations = [
  'activate',
  'activate_offline',
  'refresh',
  'check',
  'migrate',
  'start_trial',
  'release',
  'deactivate',
  'call_home',
  'store',
  'internal',
] as const

/** The problem in the last contact of its kind, for a log or a support page; never needed for a decision. */
export interface Problem {
  readonly operation: Operation
  readonly code: Reason | ProblemCode
  readonly detail: string
  /** ISO 8601, UTC. */
  readonly at: string
}
