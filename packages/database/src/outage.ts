import { isDatabaseOutage } from './problems.ts'

/**
 * Decides which failures background work logs: only the first failure of a database outage, and every other failure.
 *
 * @example catch (error) { if (outage.isNews(error)) log.warn({ err: error }, 'sweep failed, trying again') }
 */
export class Outage {
  #lasts = false

  isNews(error: unknown): boolean {
    const before = this.#lasts
    this.#lasts = isDatabaseOutage(error)
    return !(before && this.#lasts)
  }

  /** The work has succeeded, so the next outage is reported again. */
  over(): void {
    this.#lasts = false
  }
}
