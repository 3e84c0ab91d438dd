import type { Attempts } from './attempts.ts'
import { revocationsOf, tokenOf, type Held } from './held.ts'
import type { LicenceClientStatus, Problem, Reason } from './reasons.ts'

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

/** The table of states: the first line that applies decides. */
export function statusOf(
  held: Held,
  { isStoreRead, failure, absence }: Attempts,
): { readonly status: LicenceClientStatus; readonly reason: Reason | null } {
  if (!isStoreRead) return { status: 'starting', reason: null }
  const { refusal } = held.licence
  const time = held.time.time
  const claims = tokenOf(held)?.claims
  if (revocationsOf(held).namedBy !== null || refusal === 'revoked')
    return { status: 'refused', reason: 'revoked' }
  if (!claims && refusal) return { status: 'refused', reason: refusal }
  if (!claims) return { status: 'unlicensed', reason: failure ?? absence }
  if (time >= claims.expiresAt && refusal) return { status: 'refused', reason: refusal }
  if (time >= claims.expiresAt) return { status: 'lapsed', reason: failure ?? 'token_expired' }
  if (refusal) return { status: 'grace', reason: refusal }
  if (failure && time >= claims.refreshAfter) return { status: 'grace', reason: failure }
  return { status: 'licensed', reason: null }
}

/** The state at the time that was last observed. */
export function stateOf(held: Held, attempts: Attempts): LicenceState {
  const { status, reason } = statusOf(held, attempts)
  const claims = tokenOf(held)?.claims
  return {
    status,
    usable: status === 'licensed' || status === 'grace',
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
    revocations: freshnessOf(held),
    clockTurnedBack: held.time.turnedBack,
    problem: attempts.problem,
  }
}

function freshnessOf(held: Held): LicenceState['revocations'] {
  const { list } = revocationsOf(held)
  if (!list) return 'unknown'
  const { time } = held.time
  const interval = tokenOf(held)?.claims.checkIntervalMs ?? 0
  const isChecked = list.checkedAt !== null && time - list.checkedAt <= 2 * interval
  return isChecked && !list.more && time < list.expiresAt ? 'current' : 'stale'
}

function textOf(time: number | null | undefined): string | null {
  return time === null || time === undefined ? null : new Date(time).toISOString()
}
