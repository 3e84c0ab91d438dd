/** Receives the progress of a start. */
export interface StartProgress {
  /** Sets the current step of the start. Each call counts as progress, even if it repeats the name. */
  step: (name: string) => void
}

interface StartWatchOptions {
  /** How long a start may go without progress, in milliseconds. */
  limitMs: number
  /** Called after half of the limit without progress. */
  slow: (step: string) => void
  /** Called after the whole limit without progress. */
  stuck: (step: string) => void
}

const ticks = 20

/** Watches the progress of a start. It may take as long as it needs while it reports progress. */
export class StartWatch implements StartProgress {
  readonly #timer: NodeJS.Timeout
  #step = 'start'
  #idleTicks = 0

  constructor({ limitMs, slow, stuck }: StartWatchOptions) {
    // Counts ticks instead of comparing times, so that a process that was paused for a while does not count as slow.
    this.#timer = setInterval(() => {
      this.#idleTicks += 1
      if (this.#idleTicks === ticks / 2) slow(this.#step)
      if (this.#idleTicks !== ticks) return
      clearInterval(this.#timer)
      stuck(this.#step)
    }, limitMs / ticks)
  }

  get current(): string {
    return this.#step
  }

  readonly step = (name: string): void => {
    this.#step = name
    if (this.#idleTicks < ticks) this.#idleTicks = 0
  }

  /** The problem, if the start has made no progress for half of its limit. */
  problem(): string | null {
    return this.#idleTicks < ticks / 2 ? null : `start does not get on: ${this.#step}`
  }

  /** The start has ended, or the process stops. The problem of a start that was stuck remains. */
  end(): void {
    clearInterval(this.#timer)
    if (this.#idleTicks < ticks) this.#idleTicks = 0
  }
}
