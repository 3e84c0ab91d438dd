export type ClockSetting = { frozen_at: number | null; offset_seconds: number }

/** The time that goes into every `created`, in Unix seconds. Signatures keep the real time. */
export class Clock {
  #frozenAt: number | null = null
  #offsetSeconds = 0
  #during: number | null = null

  now(): number {
    return this.#during ?? this.#frozenAt ?? Math.floor(Date.now() / 1000) + this.#offsetSeconds
  }

  /** Runs one action at a time of its own, so that tests which share a simulator do not share a clock. */
  during<Result>(seconds: number | undefined, action: () => Result): Result {
    const before = this.#during
    this.#during = seconds ?? before
    try {
      return action()
    } finally {
      this.#during = before
    }
  }

  freeze(at: number): void {
    this.#frozenAt = at
    this.#offsetSeconds = 0
  }

  offset(seconds: number): void {
    this.#frozenAt = null
    this.#offsetSeconds = seconds
  }

  advance(seconds: number): void {
    if (this.#frozenAt === null) this.#offsetSeconds += seconds
    else this.#frozenAt += seconds
  }

  setting(): ClockSetting {
    return { frozen_at: this.#frozenAt, offset_seconds: this.#offsetSeconds }
  }

  restore(setting: ClockSetting): void {
    this.#frozenAt = setting.frozen_at
    this.#offsetSeconds = setting.offset_seconds
  }
}
