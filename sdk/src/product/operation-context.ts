import type { Installation } from './installation.ts'
import { isBlocked, NO_BACKOFF, afterFailure, type Backoff } from './backoff.ts'
import { failure, unexpected, type Answer, type Ask, type Call } from './service.ts'
import { isObject, isString } from './shape.ts'
import type { Problem, RefusalReason } from './state.ts'

/** The description of the installation in requests. */
export interface Product {
  readonly appId: string
  readonly fingerprint: string
  readonly host: string
  readonly productVersion: string
}

type Kind = 'token' | 'list'
type Operation = Problem['operation']
type TokenOperation = 'activate' | 'refresh' | 'migrate' | 'start_trial'

/** The parts that all operations with the service share. */
export class OperationContext {
  readonly installation: Installation
  readonly product: Product
  readonly #ask: Ask
  readonly #random: () => number
  readonly #backoffs: Record<Kind, Backoff> = { token: NO_BACKOFF, list: NO_BACKOFF }

  constructor(installation: Installation, product: Product, ask: Ask, random: () => number) {
    this.installation = installation
    this.product = product
    this.#ask = ask
    this.#random = random
  }

  backoff(kind: Kind): Backoff {
    return this.#backoffs[kind]
  }

  ask(call: Call, signal: AbortSignal): Promise<Answer> {
    return this.#ask(call, signal)
  }

  /** The service answered with a `Retry-After` that has not passed. */
  isBlocked(kind: Kind): boolean {
    return isBlocked(this.#backoffs[kind], this.installation.time())
  }

  /** Records how an operation ended, and when the next try of its kind may be. */
  recordOutcome(operation: Operation, kind: Kind, problem: ProblemDetail | null, maxMs?: number): void {
    this.installation.recordProblem(operation, problem && { code: problem.code, detail: problem.detail })
    if (problem) this.#backOff(kind, problem.retryAfterMs ?? null, maxMs)
    else this.#backoffs[kind] = NO_BACKOFF
  }

  /** Records a try to get a token: success (null), a refusal, or a failure. */
  recordTokenOutcome(operation: TokenOperation, problem: Answer | null): void {
    const refusal = problem && refusalIn(operation, problem)
    if (!problem) {
      this.installation.recordProblem(operation, null)
      // The new token is due for renewal already. Another call would bring no better token, so the next one waits.
      if (this.installation.isTokenDue()) this.#backOff('token', null)
      else this.#backoffs.token = NO_BACKOFF
    } else if (refusal !== null) {
      this.installation.recordRefusal(refusal)
      this.recordOutcome(operation, 'token', { code: refusal, detail: detailOf(problem) }, this.#maxWaitMs())
    } else {
      const failed = unexpected(problem)
      this.installation.recordFailure(failed.reason)
      this.recordOutcome(operation, 'token', problemOf(failed), this.#maxWaitMs())
    }
  }

  /** A token of a short lease needs several tries between half of its life and its end. */
  #maxWaitMs(): number | undefined {
    const claims = this.installation.token?.claims
    return claims && (claims.expiresAt - claims.issuedAt) / 8
  }

  #backOff(kind: Kind, retryAfterMs: number | null, maxMs?: number): void {
    const wait = { random: this.#random(), retryAfterMs, maxMs }
    this.#backoffs[kind] = afterFailure(this.#backoffs[kind], this.installation.time(), wait)
  }

  /** Fetches the application's public keys and checks them at `time`; null on success. */
  async fetchKeys(signal: AbortSignal, time: number): Promise<Answer | null> {
    const path = `/v1/apps/${encodeURIComponent(this.product.appId)}/jwks.json`
    const answer = await this.#ask({ method: 'GET', path }, signal)
    if (answer.kind !== 'success') return unexpected(answer)
    const problem = await this.installation.keys.accept(answer.body, time)
    if (problem === null) return null
    return problem.reason === 'unexpected_answer'
      ? unexpected(answer)
      : failure(problem.reason, problem.detail)
  }

  /** Reads a signed text. If it is signed with an unknown key, the keys are fetched once. */
  async readSigned<T>(
    read: () => Promise<T | 'unknown_key' | 'forged' | 'unsupported_runtime'>,
    signal: AbortSignal,
    time: number,
  ): Promise<{ value: T } | { problem: Answer & { kind: 'failure' } }> {
    let value = await read()
    if (value === 'unknown_key') {
      const problem = await this.fetchKeys(signal, time)
      if (problem) return { problem: unexpected(problem) }
      value = await read()
    }
    if (value === 'unsupported_runtime') {
      return {
        problem: failure('unsupported_runtime', 'Web Crypto of this runtime does not support Ed25519'),
      }
    }
    if (value === 'unknown_key' || value === 'forged') {
      return { problem: failure('untrusted_signature', 'not signed by a key of this application') }
    }
    return { value: value as T }
  }

  /** Reads the token of an answer to a request with `nonce`; null if it is valid. */
  async receiveToken(answer: Answer, nonce: string, signal: AbortSignal): Promise<Answer | null> {
    if (answer.kind !== 'success') return answer
    const { body } = answer
    if (!isObject(body) || !isString(body['token'])) return unexpected(answer)
    const jws = body['token']
    const time = this.installation.timeFor(jws, nonce)
    const read = await this.readSigned(() => this.installation.readToken(jws, time), signal, time)
    if ('problem' in read) return read.problem
    const { activationId, licenceId } = read.value.claims
    if (activationId !== body['activation_id'] || licenceId !== body['licence_id']) {
      return failure('untrusted_signature', 'the token belongs to another activation')
    }
    const floating = isString(body['lease_ends_at'])
    this.installation.accept({ ...read.value, floating }, nonce)
    // Fetches the keys before they end, so that a start without the network has keys for a valid token. If this
    // fails, the token is accepted all the same.
    if (this.installation.keys.isDue(this.installation.time())) await this.fetchKeys(signal, time)
    return null
  }
}

/** A failure as the state's `problem`. */
interface ProblemDetail {
  readonly code: string
  readonly detail: string
  readonly retryAfterMs?: number | null
}

export function problemOf(answer: Answer): ProblemDetail {
  const { reason, detail, retryAfterMs } = unexpected(answer)
  return { code: reason, detail, retryAfterMs }
}

function detailOf(answer: Answer): string {
  return answer.kind === 'success' ? '' : answer.detail
}

/** The reasons of refusals, by operation. Any other refusal is a failure. */
const REFUSALS: Record<TokenOperation, Readonly<Record<string, RefusalReason>>> = {
  activate: {
    '404 not_found': 'unknown_licence_key',
    '409 limit_reached': 'limit_reached',
    '409 quota_exceeded': 'quota_exceeded',
    '422 validation_failed': 'invalid_request',
  },
  refresh: {
    // The activation is known, so only a lease can be missing.
    '409 limit_reached': 'no_place',
    '401 unauthenticated': 'token_rejected',
    '404 not_found': 'activation_freed',
    '422 validation_failed': 'invalid_request',
  },
  migrate: {
    '404 not_found': 'unknown_legacy_key',
    '422 validation_failed': 'invalid_request',
  },
  start_trial: {
    '404 not_found': 'unknown_plan',
    '409 plan_archived': 'plan_archived',
    '409 limit_reached': 'limit_reached',
    '409 quota_exceeded': 'quota_exceeded',
    '422 validation_failed': 'invalid_request',
  },
}

/** The refusal in an answer; null if there is none. */
export function refusalIn(operation: TokenOperation, answer: Answer): RefusalReason | null {
  if (answer.kind !== 'refusal') return null
  if (answer.code === 'licence_refused') return answer.reason ?? answer.code
  if (answer.code === 'limit_reached' && answer.reason === 'max_concurrent') return 'no_place'
  return REFUSALS[operation][`${answer.status} ${answer.code}`] ?? null
}
