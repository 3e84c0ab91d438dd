import { LRUCache } from 'lru-cache'

interface Window {
  taken: number
  endsMs: number
}

export interface Allowance {
  allowed: boolean
  remaining: number
  resetSeconds: number
}

const windowMs = 60_000
const mostCallers = 100_000

/** Counts requests of each caller in windows of a minute that begin with the caller's first. */
export class RateLimit {
  /** `RateLimit-Policy` (draft-ietf-httpapi-ratelimit-headers). */
  readonly policy: string
  readonly #name: string
  readonly #perMinute: number
  readonly #windows = new LRUCache<string, Window>({ max: mostCallers })

  constructor(name: string, perMinute: number) {
    this.#name = name
    this.#perMinute = perMinute
    this.policy = `"${name}";q=${perMinute};w=${windowMs / 1000}`
  }

  /** Counts one request. */
  take(caller: string): Allowance {
    const nowMs = Date.now()
    let window = this.#windows.get(caller)
    if (!window || nowMs >= window.endsMs) {
      window = { taken: 0, endsMs: nowMs + windowMs }
      this.#windows.set(caller, window)
    }
    const allowed = window.taken < this.#perMinute
    if (allowed) window.taken++
    return this.#allowance(allowed, window, nowMs)
  }

  /** What is left, without counting. */
  peek(caller: string): Allowance {
    const nowMs = Date.now()
    const window = this.#windows.get(caller)
    if (!window || nowMs >= window.endsMs) {
      return { allowed: true, remaining: this.#perMinute, resetSeconds: windowMs / 1000 }
    }
    return this.#allowance(window.taken < this.#perMinute, window, nowMs)
  }

  /** An item of the `RateLimit` header. */
  item({ remaining, resetSeconds }: Allowance): string {
    return `"${this.#name}";r=${remaining};t=${resetSeconds}`
  }

  #allowance(allowed: boolean, window: Window, nowMs: number): Allowance {
    return {
      allowed,
      remaining: this.#perMinute - window.taken,
      resetSeconds: Math.ceil((window.endsMs - nowMs) / 1000),
    }
  }
}
