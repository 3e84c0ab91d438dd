import { ServiceError } from '@licensing/grpc/errors'
import type { FastifyReply } from 'fastify'
import type { Asker } from './key-lookups.ts'
import type { Allowance } from './rate-limit.ts'
import { RateLimit } from './rate-limit.ts'

export interface RateLimits {
  /** Requests a minute of one API key; also of one address that has shown none. */
  perKey: number
  /** Product requests a minute of one address. */
  perAddress: number
  /** Of those, wrong licence keys and tokens. */
  wrongKeysPerAddress: number
}

// A payment processor sends its events from few addresses, in bursts, and signs them: this only bounds the absurd.
const processorEventsPerMinute = 60_000

/** The request rates that the gateway allows. Each replica counts for itself. */
export class Throttle {
  readonly #keys: RateLimit
  readonly #unauthenticated: RateLimit
  readonly #products: RateLimit
  readonly #wrongKeys: RateLimit
  readonly #processors = new RateLimit('processor', processorEventsPerMinute)

  constructor(limits: RateLimits) {
    this.#keys = new RateLimit('key', limits.perKey)
    this.#unauthenticated = new RateLimit('address', limits.perKey)
    this.#products = new RateLimit('address', limits.perAddress)
    this.#wrongKeys = new RateLimit('wrong-keys', limits.wrongKeysPerAddress)
  }

  key(reply: FastifyReply, keyId: string): void {
    check(reply, this.#keys, this.#keys.take(keyId))
  }

  /** A request without a valid key. */
  unauthenticated(reply: FastifyReply, caller: string): void {
    check(reply, this.#unauthenticated, this.#unauthenticated.take(caller))
  }

  /** Where a key comes from that is not known yet. */
  askerAt(caller: string): Asker {
    return { caller, isLimited: !this.#unauthenticated.peek(caller).allowed }
  }

  processor(reply: FastifyReply, caller: string): void {
    check(reply, this.#processors, this.#processors.take(caller))
  }

  product(reply: FastifyReply, caller: string): void {
    check(reply, this.#products, this.#products.take(caller))
  }

  /** Before a licence key or token is looked at: a caller that guessed too often has to wait, right or wrong. */
  guess(reply: FastifyReply, caller: string): void {
    const left = this.#wrongKeys.peek(caller)
    if (!left.allowed) check(reply, this.#wrongKeys, left)
  }

  /** A licence key or token turned out wrong. */
  wrongKey(reply: FastifyReply, caller: string): void {
    const left = this.#wrongKeys.take(caller)
    if (!left.allowed) check(reply, this.#wrongKeys, left)
  }
}

function check(reply: FastifyReply, limit: RateLimit, left: Allowance): void {
  reply.header('ratelimit-policy', limit.policy)
  reply.header('ratelimit', limit.item(left))
  if (left.allowed) return
  reply.header('retry-after', String(left.resetSeconds))
  throw new ServiceError('rate_limited', `too many requests; try again in ${left.resetSeconds} seconds`)
}
