import type { Owner } from '../world/collection.ts'

export const faultKinds = ['429', '409', '500', '503', 'timeout', 'hang', 'reset'] as const
export type FaultKind = (typeof faultKinds)[number]

/** What goes wrong with the next API calls that match. */
export type Fault = {
  answer: FaultKind
  /** How many calls it still meets. */
  remaining: number
  method?: string | undefined
  /** The beginning of the path. */
  path?: string | undefined
  account?: string | undefined
  /** The call takes effect, and only its answer is lost. Otherwise nothing happened. */
  applied: boolean
  /** An error is remembered under the idempotency key, as Stripe does once an endpoint has begun. */
  saved: boolean
  /** Before a `timeout` closes the connection. */
  delay_ms: number
}

/** API calls to spoil, in the order in which they were asked for. */
export class Faults {
  #faults: Fault[] = []

  add(fault: Fault): void {
    this.#faults.push(fault)
  }

  take(method: string, path: string, account: Owner): Fault | undefined {
    const fault = this.#faults.find(
      (each) =>
        (each.method === undefined || each.method === method) &&
        (each.path === undefined || path.startsWith(each.path)) &&
        (each.account === undefined || each.account === account),
    )
    if (fault === undefined) return undefined
    fault.remaining -= 1
    this.#faults = this.#faults.filter((each) => each.remaining > 0)
    return fault
  }

  list(): Fault[] {
    return this.#faults
  }

  clear(): void {
    this.#faults = []
  }
}

export function faultAnswer(kind: FaultKind): { status: number; body: string } {
  const status = Number(kind)
  const errors: Partial<Record<FaultKind, object>> = {
    429: { type: 'invalid_request_error', code: 'rate_limit', message: 'Too many requests (simulated)' },
    409: {
      type: 'invalid_request_error',
      code: 'lock_timeout',
      message: 'This object cannot be accessed right now because another request holds it (simulated)',
    },
  }
  const error = errors[kind] ?? { type: 'api_error', message: 'An unknown error occurred (simulated)' }
  return { status, body: JSON.stringify({ error }) }
}
