import { isDatabaseUnavailable, isMoving } from '@licensing/database/problems'
import type { Logger } from '@licensing/process/log'
import { retry } from '@licensing/process/retry'
import type { FinishedAttempt } from './attempt-queries.ts'
import { flushSize } from './metrics.ts'

const maxRows = 200
const batchDelayMs = 3
const pauses = { firstMs: 200, maxMs: 2_000 }
const maxTries = 3
/** How many batches are written at the same time, each on a connection. */
export const maxBatches = 2

export interface AttemptWriterOptions<Recorded> {
  record: (attempts: FinishedAttempt[]) => Promise<Recorded>
  /** Called after the commit. */
  recorded: (attempts: FinishedAttempt[], recorded: Recorded) => void
  log: Logger
}

/**
 * Records attempts in batches: all attempts that end within a few milliseconds, up to 200. An attempt stays in memory until the
 * database has recorded it.
 */
export class AttemptWriter<Recorded> {
  readonly #options: AttemptWriterOptions<Recorded>
  #queue: FinishedAttempt[] = []
  #running = 0
  #failing = 0
  #timer: NodeJS.Timeout | undefined
  #drained: (() => void)[] = []

  constructor(options: AttemptWriterOptions<Recorded>) {
    this.#options = options
  }

  /** Whether a batch could not be recorded and is tried again. */
  get isBehind(): boolean {
    return this.#failing > 0
  }

  add(attempt: FinishedAttempt): void {
    this.#queue.push(attempt)
    if (this.#queue.length >= maxRows) this.#flush()
    else this.#timer ??= setTimeout(() => this.#flush(), batchDelayMs)
  }

  /** Resolves when all added attempts are recorded. */
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
    while (this.#queue.length > 0 && this.#running < maxBatches) {
      const batch = this.#takeBatch()
      this.#running += 1
      void this.#write(batch).finally(() => {
        this.#running -= 1
        if (this.#queue.length > 0) this.#flush()
        else if (this.#running === 0) for (const resolve of this.#drained.splice(0)) resolve()
      })
    }
  }

  /** Takes at most one attempt of each delivery, sorted by delivery, so that two writers lock rows in the same order. */
  #takeBatch(): FinishedAttempt[] {
    const batch = new Map<string, FinishedAttempt>()
    const later: FinishedAttempt[] = []
    for (const attempt of this.#queue) {
      if (batch.size < maxRows && !batch.has(attempt.deliveryId)) batch.set(attempt.deliveryId, attempt)
      else later.push(attempt)
    }
    this.#queue = later
    return [...batch.values()].sort((a, b) => (a.deliveryId < b.deliveryId ? -1 : 1))
  }

  async #write(batch: FinishedAttempt[]): Promise<void> {
    const { record, recorded, log } = this.#options
    let isFailing = false
    const isRetried = (error: unknown, tries: number) => {
      // The account has moved meanwhile. The lease of its delivery ends, and the other cell sends it.
      const isTransient = isDatabaseUnavailable(error) && !isMoving(error)
      if (!isTransient || Number.isInteger(Math.log2(tries))) {
        log.warn({ err: error, tries, attempts: batch.length }, 'attempts could not be recorded')
      }
      if (!isTransient && (batch.length > 1 || tries >= maxTries)) return false
      // PostgreSQL refuses something that the receiver sent: the attempt is recorded without it. If that fails too, the
      // attempt is dropped. The lease of its delivery ends, and the delivery is sent again.
      if (!isTransient) Object.assign(batch[0]!, { responseExcerpt: null, error: null })
      if (!isFailing) this.#failing += 1
      isFailing = true
      return true
    }
    const write = async () => {
      const result = await record(batch)
      flushSize.observe(batch.length)
      recorded(batch, result)
    }
    try {
      await retry(write, { ...pauses, isRetried })
    } catch {
      // The database refuses this batch, so each of its attempts is recorded alone.
      if (batch.length > 1) for (const attempt of batch) await this.#write([attempt])
    } finally {
      if (isFailing) this.#failing -= 1
    }
  }
}
