import { Gauge } from 'prom-client'

const stuckLines = new Gauge({
  name: 'event_lines_stuck',
  help: 'Accounts whose first event in line cannot be recorded and is tried again: look at the log',
})

/** The pauses between the tries of one account: the first, doubled up to the longest. */
export interface Pauses {
  firstMs: number
  longestMs: number
}

/** Accounts whose first event in line could not be recorded, each with the time of its next try. */
export class StuckLines {
  readonly #pauses: Pauses
  readonly #lines = new Map<string, { failures: number; nextAt: number }>()

  constructor(pauses: Pauses) {
    this.#pauses = pauses
  }

  get accounts(): string[] {
    return [...this.#lines.keys()]
  }

  /** One whose next try is due; others are given it again only after a pause. */
  takeDue(): string | undefined {
    const now = performance.now()
    for (const [accountId, line] of this.#lines) {
      if (line.nextAt > now) continue
      line.nextAt = now + this.#pauses.firstMs
      return accountId
    }
    return undefined
  }

  failed(accountId: string): void {
    const { firstMs, longestMs } = this.#pauses
    const failures = (this.#lines.get(accountId)?.failures ?? 0) + 1
    const pauseMs = Math.min(firstMs * 2 ** Math.min(failures - 1, 30), longestMs)
    this.#lines.set(accountId, { failures, nextAt: performance.now() + pauseMs })
    stuckLines.set(this.#lines.size)
  }

  /** Its first event was recorded, or there is none any more. */
  moved(accountId: string): void {
    if (this.#lines.delete(accountId)) stuckLines.set(this.#lines.size)
  }
}
