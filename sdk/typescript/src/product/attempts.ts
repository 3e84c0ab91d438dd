import type { AbsenceReason, FailureReason, Operation, Problem } from './reasons.ts'

/**
 * The outcomes of the calls of this process: a value beside `Held`, which ends with the process. It explains the state
 * and decides when the next call may be. Times are in milliseconds of trusted time.
 */
export interface Attempts {
  readonly isStoreRead: boolean
  /** Why there is no token, before the service was asked. */
  readonly absence: AbsenceReason
  /** The reason, if the last try to get a token failed. */
  readonly failure: FailureReason | null
  /** The most recent problem, unless a later success has ended it. */
  readonly problem: Problem | null
  /** When the service may be asked again for a token, and for a revocation list. */
  readonly backoff: Readonly<Record<Kind, Backoff>>
}

export type Kind = 'token' | 'list'

export interface Backoff {
  readonly failures: number
  /** When the background tries again after a failure. */
  readonly retryAt: number
  /** No call before this time (`Retry-After`). */
  readonly blockedUntil: number
}

export const NO_BACKOFF: Backoff = { failures: 0, retryAt: 0, blockedUntil: 0 }

/** The attempts of a client that was just created. */
export const NO_ATTEMPTS: Attempts = {
  isStoreRead: false,
  absence: 'not_activated',
  failure: null,
  problem: null,
  backoff: { token: NO_BACKOFF, list: NO_BACKOFF },
}

/** A problem before it is recorded. */
export interface Trouble {
  readonly code: Problem['code']
  readonly detail: string
  readonly retryAfterMs?: number | null
}

/** Records the problem of an operation at `time`. A success (null) ends the problem of the same operation only. */
export function withProblem(
  attempts: Attempts,
  operation: Operation,
  trouble: Trouble | null,
  time: number,
): Attempts {
  if (trouble) {
    const { code, detail } = trouble
    return { ...attempts, problem: { operation, code, detail, at: new Date(time).toISOString() } }
  }
  return attempts.problem?.operation === operation ? { ...attempts, problem: null } : attempts
}

/** The operations that do not concern a token. */
const OTHER_OPERATIONS: ReadonlySet<Operation> = new Set(['check', 'call_home', 'store', 'internal'])

/** There is another token, or none any more (`absence`): former failures and problems of tokens have ended. */
export function withNewToken(attempts: Attempts, absence: AbsenceReason = attempts.absence): Attempts {
  const { problem } = attempts
  const isKept = problem !== null && OTHER_OPERATIONS.has(problem.operation)
  return { ...attempts, absence, failure: null, problem: isKept ? problem : null }
}

const FIRST_DELAY_MS = 30_000
const MAX_DELAY_MS = 3_600_000

/**
 * The pace after a failure: 30 s, doubling to an hour, shortened by up to half at random, so that products do not
 * retry together. `retryAfterMs` is the wait that the service asked for.
 */
export function afterFailure(
  { failures }: Backoff,
  time: number,
  retryAfterMs: number | null,
  maxMs = MAX_DELAY_MS,
  random = Math.random(),
): Backoff {
  const doubled = FIRST_DELAY_MS * 2 ** Math.min(failures, 20)
  const delay = Math.min(doubled, maxMs, MAX_DELAY_MS) * (1 - random / 2)
  return {
    failures: failures + 1,
    retryAt: time + Math.max(delay, retryAfterMs ?? 0),
    blockedUntil: retryAfterMs === null ? 0 : time + retryAfterMs,
  }
}

/** Whether a `Retry-After` of the service has not passed yet. */
export function isBlocked(backoff: Backoff, time: number): boolean {
  return isAhead(backoff.blockedUntil, time)
}

/** The earliest time, from `wanted` on, at which the background may try. */
export function earliest(backoff: Backoff, wanted: number, time: number): number {
  return isAhead(backoff.retryAt, time) ? Math.max(wanted, backoff.retryAt) : wanted
}

/** Whether a time is in the future. If it is further ahead than the longest wait, a wrong clock has set it: it is ignored. */
function isAhead(moment: number, time: number): boolean {
  return moment > time && moment - time <= MAX_DELAY_MS
}
