import { anchor, notBefore, observe, resume, type SeenTime } from './trusted-clock.ts'

/** The trusted time of one installation, in milliseconds since 1970 UTC: the rules of trusted-clock.ts, applied. */
export class TrustedTime {
  readonly #now: () => number
  #seen: SeenTime

  constructor(now: () => number) {
    this.#now = now
    this.#seen = observe(null, now())
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

  /** Continues from what the store held. */
  resume(stored: SeenTime): void {
    this.#seen = resume(stored, this.#now())
  }

  /** Something signed at `time` was read: it is that late at least. */
  notBefore(time: number): void {
    this.#seen = notBefore(this.#seen, time)
  }

  /** The service signed something just now, at `time`. */
  anchor(time: number): void {
    this.#seen = anchor(this.#seen, time)
  }
}
