/** Does something again and again: at intervals, and at once when woken. Never twice at a time. */
export class Loop {
  readonly #work: () => Promise<void>
  readonly #everyMs: number
  readonly #failed: (error: unknown) => void
  #timer: NodeJS.Timeout | undefined
  #dueAt = 0
  #running: Promise<void> | undefined
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
    else this.#run()
  }

  /** Sooner than at the next interval, where that is later. */
  wakeIn(ms: number): void {
    if (this.#isStopped || this.#running || performance.now() + ms >= this.#dueAt) return
    this.#arm(Math.max(0, ms))
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
    this.#running = this.#work()
      .catch((error: unknown) => this.#failed(error))
      .finally(() => {
        this.#running = undefined
        if (this.#isStopped) return
        if (this.#isWoken) this.#run()
        else this.#arm(this.#everyMs)
      })
  }

  #arm(ms: number): void {
    clearTimeout(this.#timer)
    this.#dueAt = performance.now() + ms
    this.#timer = setTimeout(() => this.#run(), ms)
  }
}
