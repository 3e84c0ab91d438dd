import { ServiceError } from '@licensing/grpc/errors'
import type { FastifyReply } from 'fastify'
import { LRUCache } from 'lru-cache'
import { hash } from 'node:crypto'

export interface RateLimits {
  /** Requests per minute of one API key, and of one address without an API key. */
  perKey: number
  /** Product requests per minute of one address. */
  perAddress: number
  /** Wrong licence keys and tokens per minute of one address. */
  wrongKeysPerAddress: number
  /** New trials of one application and address on a UTC day. Licensing counts them. */
  trialsPerAddress: number
}

// A payment processor sends signed events in bursts from few addresses. This limit is far above real traffic.
const processorEventsPerMinute = 60_000

/** The rate limits of the gateway. Each replica has its own counters. */
export class Throttle {
  readonly #keys: RateLimit
  readonly #unauthenticated: RateLimit
  readonly #products: RateLimit
  readonly #wrongKeys: RateLimit
  /** When each right key was last seen. */
  readonly #rightKeys = new LRUCache<string, number>({ max: maxRightKeys })
  readonly trialsPerAddress: number
  readonly #processors = new RateLimit('processor', processorEventsPerMinute)

  constructor(limits: RateLimits) {
    this.#keys = new RateLimit('key', limits.perKey)
    this.#unauthenticated = new RateLimit('address', limits.perKey)
    this.#products = new RateLimit('address', limits.perAddress)
    this.#wrongKeys = new RateLimit('wrong-keys', limits.wrongKeysPerAddress)
    this.trialsPerAddress = limits.trialsPerAddress
  }

  key(reply: FastifyReply, keyId: string): void {
    check(reply, this.#keys, this.#keys.take(keyId))
  }

  /** Counts a request without a valid key. */
  unauthenticated(reply: FastifyReply, caller: string): void {
    check(reply, this.#unauthenticated, this.#unauthenticated.take(caller))
  }

  processor(reply: FastifyReply, caller: string): void {
    check(reply, this.#processors, this.#processors.take(caller))
  }

  product(reply: FastifyReply, caller: string): void {
    check(reply, this.#products, this.#products.take(caller))
  }

  /**
   * Call it before a key is looked up. If the caller has sent too many wrong ones, only keys that were right from there within
   * a day are looked up: a whole office can have one address, and its machines must not stop each other.
   */
  checkKey(reply: FastifyReply, caller: string, key: string): void {
    const left = this.#wrongKeys.peek(caller)
    if (left.allowed) return
    const seenMs = this.#rightKeys.get(hashOf(caller, key)) ?? Number.NEGATIVE_INFINITY
    if (Date.now() - seenMs > dayMs) check(reply, this.#wrongKeys, left)
  }

  rememberRightKey(caller: string, key: string): void {
    this.#rightKeys.set(hashOf(caller, key), Date.now())
  }

  /** Counts a wrong licence key or token. */
  countWrongKey(reply: FastifyReply, caller: string): void {
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

// Only right keys are in this memory, so that nobody can fill it with made-up ones.
const hashOf = (caller: string, key: string) => hash('sha256', `${caller} ${key}`, 'base64')

interface Window {
  count: number
  endsMs: number
}

interface Allowance {
  allowed: boolean
  remaining: number
  resetSeconds: number
}

const minuteMs = 60_000
const dayMs = 24 * 60 * minuteMs
const maxCallers = 100_000
const maxRightKeys = 50_000

/** Counts requests of each caller in windows of a minute. A window begins with the caller's first request. */
class RateLimit {
  /** `RateLimit-Policy` (draft-ietf-httpapi-ratelimit-headers). */
  readonly policy: string
  readonly #name: string
  readonly #max: number
  readonly #windows = new LRUCache<string, Window>({ max: maxCallers })

  /** @param max requests of a caller in one window */
  constructor(name: string, max: number) {
    this.#name = name
    this.#max = max
    this.policy = `"${name}";q=${max};w=${minuteMs / 1000}`
  }

  /** Counts one request. */
  take(caller: string): Allowance {
    const nowMs = Date.now()
    let window = this.#windows.get(caller)
    if (!window || nowMs >= window.endsMs) {
      window = { count: 0, endsMs: nowMs + minuteMs }
      this.#windows.set(caller, window)
    }
    const allowed = window.count < this.#max
    if (allowed) window.count++
    return this.#allowance(allowed, window, nowMs)
  }

  /** The requests left, without counting one. */
  peek(caller: string): Allowance {
    const nowMs = Date.now()
    const window = this.#windows.get(caller)
    if (!window || nowMs >= window.endsMs) {
      return { allowed: true, remaining: this.#max, resetSeconds: minuteMs / 1000 }
    }
    return this.#allowance(window.count < this.#max, window, nowMs)
  }

  /** An item of the `RateLimit` header. */
  item({ remaining, resetSeconds }: Allowance): string {
    return `"${this.#name}";r=${remaining};t=${resetSeconds}`
  }

  #allowance(allowed: boolean, window: Window, nowMs: number): Allowance {
    return {
      allowed,
      remaining: this.#max - window.count,
      resetSeconds: Math.ceil((window.endsMs - nowMs) / 1000),
    }
  }
}
