import { begin, correct, isAhead, merge, notBefore, observe, type SeenTime } from './trusted-clock.ts'

/** The trusted time of one installation, in milliseconds since 1970 UTC: the rules of trusted-clock.ts, applied. */
export class TrustedTime {
  readonly #now: () => number
  #seen: SeenTime

  constructor(now: () => number) {
    this.#now = now
    this.#seen = begin(now())
  }

  /** What was seen at the last look. */
  get seen(): SeenTime {
    return this.#seen
  }

  /** Looks at the local clock. */
  look(): number {
    this.#seen = observe(this.#seen, this.#now())
    return this.#seen.time
  }

  /** Looks at the local clock, and says what it says. */
  local(): number {
    this.look()
    return this.#seen.local
  }

  /** Whether it is ahead of the local clock, at this look. */
  isAhead(): boolean {
    this.look()
    return isAhead(this.#seen)
  }

  /** Goes on from what the store holds. */
  merge(stored: SeenTime): void {
    this.#seen = merge(this.#seen, stored, this.#now())
  }

  /** Something signed at `time` was read: it is that late at least. */
  notBefore(time: number): void {
    this.#seen = notBefore(this.#seen, time)
  }

  /** A token that answers a request says that it is `time` now. */
  correct(time: number): void {
    this.#seen = correct(this.#seen, time)
  }
}
