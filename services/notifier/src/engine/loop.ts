import { Outage } from '@licensing/database/outage'
import { isDatabaseOutage } from '@licensing/database/problems'

const longestPauseMs = 2_000

/**
 * Does something again and again: at intervals, and at once when woken. Never twice at a time. A failure is reported, and
 * slows it down until it works again; nothing ends it but `stop`.
 */
export class Loop {
  readonly #work: () => Promise<void>
  readonly #everyMs: number
  readonly #failed: (error: unknown) => void
  readonly #outage = new Outage()
  #timer: NodeJS.Timeout | undefined
  #dueAt = 0
  #running: Promise<void> | undefined
  #failures = 0
  #isWoken = false
  #isStopped = true

  constructor(work: () => Promise<void>, everyMs: number, failed: (error: unknown) => void) {
    this.#work = work
    this.#everyMs = everyMs
    this.#failed = failed
  }

  start(): void {
    this.#isStopped = false
    this.wake()
  }

  wake(): void {
    if (this.#isStopped) return
    if (this.#running) this.#isWoken = true
    else if (this.#failures === 0) this.#run()
  }

  /** Sooner than at the next interval, where that is later. */
  wakeIn(ms: number): void {
    if (this.#isStopped || this.#running || this.#failures > 0) return
    if (performance.now() + ms < this.#dueAt) this.#arm(Math.max(0, ms))
  }

  /** Resolves when nothing of it runs any more. */
  async stop(): Promise<void> {
    this.#isStopped = true
    clearTimeout(this.#timer)
    await this.#running
  }

  #run(): void {
    clearTimeout(this.#timer)
    this.#isWoken = false
    this.#running = this.#once().finally(() => {
      this.#running = undefined
      if (this.#isStopped) return
      if (this.#failures > 0) this.#arm(Math.min(this.#everyMs * 2 ** this.#failures, longestPauseMs))
      else if (this.#isWoken) this.#run()
      else this.#arm(this.#everyMs)
    })
  }

  async #once(): Promise<void> {
    try {
      await this.#work()
      this.#failures = 0
      this.#outage.over()
    } catch (error) {
      this.#failures += 1
      // An outage of the database once; of other failures the 1st, 2nd, 4th, 8th… in a row.
      const isTurn = isDatabaseOutage(error) || Number.isInteger(Math.log2(this.#failures))
      if (this.#outage.isNews(error) && isTurn) this.#failed(error)
    }
  }

  #arm(ms: number): void {
    clearTimeout(this.#timer)
    this.#dueAt = performance.now() + ms
    this.#timer = setTimeout(() => this.#run(), ms)
  }
}
