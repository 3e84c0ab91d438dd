import { isDatabaseOutage } from './problems.ts'

/**
 * What background work that is tried again logs of its failures: an outage of the database once, however often the work
 * fails because of it, and any other failure each time.
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

  /** The work has succeeded: a later outage is another one. */
  over(): void {
    this.#lasts = false
  }
}
