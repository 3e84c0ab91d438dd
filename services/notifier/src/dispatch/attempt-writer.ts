import { isDatabaseUnavailable, isRetryable } from '@licensing/database/problems'
import type { Logger } from '@licensing/process/log'
import type { Result } from './attempt-queries.ts'
import { flushSize } from './metrics.ts'

const mostRows = 200
const gatherMs = 3
const pauseMs = 200
const longestPauseMs = 2_000
const mostTries = 3
/** Batches written at a time, each on a connection. */
export const mostFlushes = 2

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
  #failing = 0
  #timer: NodeJS.Timeout | undefined
  #drained: (() => void)[] = []

  constructor(options: ResultWriterOptions<Written>) {
    this.#options = options
  }

  /** Whether results could not be written and are tried again. */
  get isBehind(): boolean {
    return this.#failing > 0
  }

  add(result: Result): void {
    this.#queue.push(result)
    if (this.#queue.length >= mostRows) this.#flush()
    else this.#timer ??= setTimeout(() => this.#flush(), gatherMs)
  }

  /** Resolves when all that was added is written. */
  async drain(): Promise<void> {
    if (this.#queue.length + this.#running === 0) return
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
    for (let tries = 1; ; tries += 1) {
      if (await this.#try(batch, tries)) return
      this.#failing += 1
      await new Promise((resolve) => setTimeout(resolve, Math.min(pauseMs * tries, longestPauseMs)))
      this.#failing -= 1
    }
  }

  /** @returns whether the batch is done with */
  async #try(batch: Result[], tries: number): Promise<boolean> {
    const { write, written, log } = this.#options
    try {
      const outcome = await write(batch)
      flushSize.observe(batch.length)
      written(batch, outcome)
      return true
    } catch (error) {
      const willPass = isDatabaseUnavailable(error) || isRetryable(error)
      if (!willPass || Number.isInteger(Math.log2(tries))) {
        log.warn({ err: error, tries, results: batch.length }, 'results could not be written')
      }
      if (willPass) return false
      if (batch.length > 1) {
        for (const result of batch) await this.#write([result])
        return true
      }
      // Whatever the receiver put into it: the attempt is recorded without. At last its lease ends, and it is sent again.
      Object.assign(batch[0]!, { responseExcerpt: null, error: null })
      return tries >= mostTries
    }
  }
}
