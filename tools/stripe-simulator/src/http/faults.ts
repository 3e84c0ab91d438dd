import type { Owner } from '../world/collection.ts'

export const faultKinds = ['403', '409', '429', '500', '503', 'timeout', 'hang', 'reset'] as const
export type FaultKind = (typeof faultKinds)[number]

/** A fault for the next matching API calls. */
export type Fault = {
  answer: FaultKind
  /** How many more calls it applies to; null for all until it is removed. */
  remaining: number | null
  method?: string | undefined
  /** The beginning of the path. */
  path?: string | undefined
  account?: string | undefined
  /** True: the call takes effect, and only its answer is lost. False: the call has no effect. */
  applied: boolean
  /** The time before a `timeout` closes the connection. */
  delay_ms: number
}

/** The injected faults, oldest first. */
export class Faults {
  #faults: Fault[] = []

  add(fault: Fault): Fault {
    this.#faults.push(fault)
    return fault
  }

  take(method: string, path: string, account: Owner): Fault | undefined {
    const fault = this.#faults.find(
      (each) =>
        (each.method === undefined || each.method === method) &&
        (each.path === undefined || path.startsWith(each.path)) &&
        (each.account === undefined || each.account === account),
    )
    if (fault === undefined || fault.remaining === null) return fault
    fault.remaining -= 1
    this.#faults = this.#faults.filter((each) => each.remaining !== 0)
    return fault
  }

  clear(): void {
    this.#faults = []
  }
}
