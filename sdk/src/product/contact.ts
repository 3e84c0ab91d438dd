import type { Installation } from './installation.ts'
import { isClosed, RESTED, slower, type Pace } from './pace.ts'
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
type AskingForToken = 'activate' | 'refresh' | 'migrate' | 'start_trial'

/** The parts that all operations with the service share. */
export class Contact {
  readonly installation: Installation
  readonly product: Product
  readonly #ask: Ask
  readonly #random: () => number
  readonly #paces: Record<Kind, Pace> = { token: RESTED, list: RESTED }

  constructor(installation: Installation, product: Product, ask: Ask, random: () => number) {
    this.installation = installation
    this.product = product
    this.#ask = ask
    this.#random = random
  }

  pace(kind: Kind): Pace {
    return this.#paces[kind]
  }

  ask(call: Call, signal: AbortSignal): Promise<Answer> {
    return this.#ask(call, signal)
  }

  /** The service answered with a `Retry-After` that has not passed. */
  isClosed(kind: Kind): boolean {
    return isClosed(this.#paces[kind], this.installation.time())
  }

  /** Records how an operation ended, and when the next try of its kind may be. */
  settle(operation: Operation, kind: Kind, trouble: Trouble | null, longestMs?: number): void {
    this.installation.note(operation, trouble && { code: trouble.code, detail: trouble.detail })
    if (trouble) this.#slowDown(kind, trouble.retryAfterMs ?? null, longestMs)
    else this.#paces[kind] = RESTED
  }

  /** Records a try to get a token: success (null), a refusal, or a failure. */
  conclude(operation: AskingForToken, trouble: Answer | null): void {
    const refusal = trouble && refusalIn(operation, trouble)
    if (!trouble) {
      this.installation.note(operation, null)
      // The new token is due for renewal already. Another call would bring no better token, so the next one waits.
      if (this.installation.isTokenDue()) this.#slowDown('token', null)
      else this.#paces.token = RESTED
    } else if (refusal !== null) {
      this.installation.refuse(refusal)
      this.settle(operation, 'token', { code: refusal, detail: detailOf(trouble) }, this.#longestWaitMs())
    } else {
      const failed = unexpected(trouble)
      this.installation.fail(failed.reason)
      this.settle(operation, 'token', troubleOf(failed), this.#longestWaitMs())
    }
  }

  /** A token of a short lease needs several tries between half of its life and its end. */
  #longestWaitMs(): number | undefined {
    const claims = this.installation.token?.claims
    return claims && (claims.expiresAt - claims.issuedAt) / 8
  }

  #slowDown(kind: Kind, retryAfterMs: number | null, longestMs?: number): void {
    const wait = { random: this.#random(), retryAfterMs, longestMs }
    this.#paces[kind] = slower(this.#paces[kind], this.installation.time(), wait)
  }

  /** Fetches the application's public keys and checks them at `time`; null on success. */
  async fetchKeys(signal: AbortSignal, time: number): Promise<Answer | null> {
    const path = `/v1/apps/${encodeURIComponent(this.product.appId)}/jwks.json`
    const answer = await this.#ask({ method: 'GET', path }, signal)
    if (answer.kind !== 'good') return unexpected(answer)
    const trouble = await this.installation.keys.learn(answer.body, time)
    if (trouble === null) return null
    return trouble.reason === 'unexpected_answer'
      ? unexpected(answer)
      : failure(trouble.reason, trouble.detail)
  }

  /** Reads a signed text. If it is signed with an unknown key, the keys are fetched once. */
  async readSigned<T>(
    read: () => Promise<T | 'unknown_key' | 'forged' | 'unsupported_runtime'>,
    signal: AbortSignal,
    time: number,
  ): Promise<{ value: T } | { trouble: Answer & { kind: 'failure' } }> {
    let value = await read()
    if (value === 'unknown_key') {
      const trouble = await this.fetchKeys(signal, time)
      if (trouble) return { trouble: unexpected(trouble) }
      value = await read()
    }
    if (value === 'unsupported_runtime') {
      return {
        trouble: failure('unsupported_runtime', 'Web Crypto of this runtime does not support Ed25519'),
      }
    }
    if (value === 'unknown_key' || value === 'forged') {
      return { trouble: failure('untrusted_signature', 'not signed by a key of this application') }
    }
    return { value: value as T }
  }

  /** Reads the token of an answer to a request with `nonce`; null if it is valid. */
  async receiveToken(answer: Answer, nonce: string, signal: AbortSignal): Promise<Answer | null> {
    if (answer.kind !== 'good') return answer
    const { body } = answer
    if (!isObject(body) || !isString(body['token'])) return unexpected(answer)
    const jws = body['token']
    const time = this.installation.timeFor(jws, nonce)
    const read = await this.readSigned(() => this.installation.readToken(jws, time), signal, time)
    if ('trouble' in read) return read.trouble
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
interface Trouble {
  readonly code: string
  readonly detail: string
  readonly retryAfterMs?: number | null
}

export function troubleOf(answer: Answer): Trouble {
  const { reason, detail, retryAfterMs } = unexpected(answer)
  return { code: reason, detail, retryAfterMs }
}

function detailOf(answer: Answer): string {
  return answer.kind === 'good' ? '' : answer.detail
}

/** The reasons of refusals, by operation. Any other refusal is a failure. */
const REFUSALS: Record<AskingForToken, Readonly<Record<string, RefusalReason>>> = {
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
export function refusalIn(operation: AskingForToken, answer: Answer): RefusalReason | null {
  if (answer.kind !== 'no') return null
  if (answer.code === 'licence_refused') return answer.reason ?? answer.code
  if (answer.code === 'limit_reached' && answer.reason === 'max_concurrent') return 'no_place'
  return REFUSALS[operation][`${answer.status} ${answer.code}`] ?? null
}
