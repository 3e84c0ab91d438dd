import { isDatabaseOutage } from './problems.ts'

/**
 * Which failures background work logs: of an outage of the database only the first, and every other failure.
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
