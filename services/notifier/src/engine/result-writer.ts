import { isDatabaseUnavailable, isRetryable } from '@licensing/database/problems'
import type { Logger } from '@licensing/process/log'
import type { Result } from './result-queries.ts'
import { flushSize } from './metrics.ts'

const mostRows = 200
const gatherMs = 3
const mostFlushes = 2
const pauseMs = 200

export interface ResultWriterOptions<Written> {
  write: (results: Result[]) => Promise<Written>
  written: (results: Result[], outcome: Written) => void
  log: Logger
}

/**
 * Writes results together: what has come within a few milliseconds, 200 rows at most. A result is kept until the
 * database has it.
 */
export class ResultWriter<Written> {
  readonly #options: ResultWriterOptions<Written>
  #queue: Result[] = []
  #running = 0
  #timer: NodeJS.Timeout | undefined
  #drained: (() => void)[] = []

  constructor(options: ResultWriterOptions<Written>) {
    this.#options = options
  }

  /** Results not written yet. */
  get size(): number {
    return this.#queue.length + this.#running
  }

  add(result: Result): void {
    this.#queue.push(result)
    if (this.#queue.length >= mostRows) this.#flush()
    else this.#timer ??= setTimeout(() => this.#flush(), gatherMs)
  }

  /** Resolves when all that was added is written. */
  async drain(): Promise<void> {
    if (this.size === 0) return
    await new Promise<void>((resolve) => {
      this.#drained.push(resolve)
      this.#flush()
    })
  }

  #flush(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    while (this.#queue.length > 0 && this.#running < mostFlushes) {
      const batch = this.#take()
      this.#running += 1
      void this.#write(batch).finally(() => {
        this.#running -= 1
        if (this.#queue.length > 0) this.#flush()
        else if (this.#running === 0) for (const resolve of this.#drained.splice(0)) resolve()
      })
    }
  }

  /** One result of a delivery at a time, in the order of their ids, so that two writers lock rows in one order. */
  #take(): Result[] {
    const batch = new Map<string, Result>()
    const later: Result[] = []
    for (const result of this.#queue) {
      if (batch.size < mostRows && !batch.has(result.deliveryId)) batch.set(result.deliveryId, result)
      else later.push(result)
    }
    this.#queue = later
    return [...batch.values()].sort((a, b) => (a.deliveryId < b.deliveryId ? -1 : 1))
  }

  async #write(batch: Result[]): Promise<void> {
    const { write, written, log } = this.#options
    for (let tries = 1; ; tries += 1) {
      try {
        const outcome = await write(batch)
        flushSize.observe(batch.length)
        return written(batch, outcome)
      } catch (error) {
        const willPass = isDatabaseUnavailable(error) || isRetryable(error)
        log.warn({ err: error, tries, results: batch.length }, 'results not written')
        if (!willPass && batch.length > 1) {
          for (const result of batch) await this.#write([result])
          return
        }
        // It stays leased until its lease ends, and is sent again.
        if (!willPass && tries >= 3) return
        await new Promise((resolve) => setTimeout(resolve, Math.min(pauseMs * tries, 2_000)))
      }
    }
  }
}
