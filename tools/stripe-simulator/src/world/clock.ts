type ClockSetting = {
  frozen_at: number | null
  offset_seconds: number
  /** How many seconds each customer's clock is ahead of the simulator's clock. */
  customers?: Record<string, number>
}

/**
 * The time for every `created`, in Unix seconds. Signatures use the real time. The clock of a customer may be ahead, as
 * with Stripe's test clocks, so that a renewal affects only its own customer.
 */
export class Clock {
  #frozenAt: number | null = null
  #offsetSeconds = 0
  #during: number | null = null
  #customer: string | null = null
  readonly #ahead = new Map<string, number>()

  now(): number {
    return this.#during ?? this.nowOf(this.#customer)
  }

  nowOf(customer: string | null): number {
    const everyone = this.#frozenAt ?? Math.floor(Date.now() / 1000) + this.#offsetSeconds
    return everyone + (customer === null ? 0 : (this.#ahead.get(customer) ?? 0))
  }

  /** The time that was set for the present action; null if it uses the clock. */
  chosen(): number | null {
    return this.#during
  }

  /** Runs an action at the given time, so that tests can share a simulator without sharing a clock. */
  during<Result>(seconds: number | undefined, action: () => Result): Result {
    const before = this.#during
    this.#during = seconds ?? before
    try {
      return action()
    } finally {
      this.#during = before
    }
  }

  /** Runs an action in the time of a customer. */
  of<Result>(customer: string | null, action: () => Result): Result {
    const before = this.#customer
    this.#customer = customer
    try {
      return action()
    } finally {
      this.#customer = before
    }
  }

  /** Moves a customer's clock forward; never back. */
  moveCustomer(customer: string, to: number): void {
    const seconds = to - this.nowOf(customer)
    if (seconds > 0) this.#ahead.set(customer, (this.#ahead.get(customer) ?? 0) + seconds)
  }

  freeze(at: number): void {
    this.#frozenAt = at
    this.#offsetSeconds = 0
    this.#ahead.clear()
  }

  offset(seconds: number): void {
    this.#frozenAt = null
    this.#offsetSeconds = seconds
    this.#ahead.clear()
  }

  setting(): ClockSetting {
    return {
      frozen_at: this.#frozenAt,
      offset_seconds: this.#offsetSeconds,
      customers: Object.fromEntries(this.#ahead),
    }
  }

  restore(setting: ClockSetting): void {
    this.#frozenAt = setting.frozen_at
    this.#offsetSeconds = setting.offset_seconds
    this.#ahead.clear()
    for (const [customer, seconds] of Object.entries(setting.customers ?? {})) {
      this.#ahead.set(customer, seconds)
    }
  }
}
