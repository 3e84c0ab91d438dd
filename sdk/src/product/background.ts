import type { Duties } from './schedule.ts'

/** A computer that slept wakes with its timers late: none of ours is longer than a minute. */
const LONGEST_SLEEP_MS = 60_000
/** Whatever is due, there is a breath between two looks. */
const SHORTEST_SLEEP_MS = 1000

/** The one timer of a client: wakes when something is due, and never keeps a process alive. */
export class Background {
  readonly #due: () => Duties
  readonly #work: () => Promise<void>
  #timer: ReturnType<typeof setTimeout> | undefined
  #stopped = false

  constructor(due: () => Duties, work: () => Promise<void>) {
    this.#due = due
    this.#work = work
  }

  /** Works out again what is due when. */
  schedule(): void {
    clearTimeout(this.#timer)
    const { list, token, lapse, time } = this.#due()
    const next = [list, token, lapse].filter((moment) => moment !== null)
    if (this.#stopped || next.length === 0) return
    // A timer ends up to a millisecond early where its time is no whole number: nothing would be due then.
    const untilNext = Math.ceil(Math.min(...next) - time)
    const delay = Math.min(Math.max(untilNext, SHORTEST_SLEEP_MS), LONGEST_SLEEP_MS)
    this.#timer = setTimeout(() => void this.#wake(), delay)
    letProcessEnd(this.#timer)
  }

  stop(): void {
    this.#stopped = true
    clearTimeout(this.#timer)
  }

  async #wake(): Promise<void> {
    await this.#work()
    this.schedule()
  }
}

/** In Node and Electron a timer is an object that can be set not to keep the process alive; elsewhere a number. */
function letProcessEnd(timer: unknown): void {
  if (typeof timer !== 'object' || timer === null || !('unref' in timer)) return
  if (typeof timer.unref === 'function') timer.unref()
}
