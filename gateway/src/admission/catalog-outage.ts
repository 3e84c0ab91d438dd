import { ServiceError } from '@licensing/grpc/errors'
import type { Services } from '../services.ts'

const catalogTimeoutMs = 300
const licensingTimeoutMs = 700
/** How long an answer is used, counted from the question. A restarted catalog can revoke a key at once. */
const answerLifeMs = 1_000
const renewMs = 400

/**
 * Finds out whether catalog is down for everybody and not only unreachable from this gateway. It is down if licensing, which
 * has its own connection, cannot connect to it either. Then nobody can revoke an API key.
 */
export class CatalogOutage {
  readonly #services: Pick<Services, 'catalog' | 'licensing'>
  #running: Promise<boolean> | undefined
  #downSinceMs = Number.NEGATIVE_INFINITY

  constructor(services: Pick<Services, 'catalog' | 'licensing'>) {
    this.#services = services
  }

  /** Whether catalog is known to be down. Renews the answer in advance, so that no request waits for it during an outage. */
  isKnown(): boolean {
    const ageMs = performance.now() - this.#downSinceMs
    if (ageMs >= answerLifeMs) return false
    if (ageMs >= renewMs) void this.check()
    return true
  }

  check(): Promise<boolean> {
    this.#running ??= this.#checkBoth().finally(() => (this.#running = undefined))
    return this.#running
  }

  async #checkBoth(): Promise<boolean> {
    const { catalog, licensing } = this.#services
    const startedMs = performance.now()
    const answers = await Promise.all([
      catalog
        .authenticateKeys({ keyHashes: [] }, { timeoutMs: catalogTimeoutMs })
        .then(() => false, isUnavailable),
      licensing.checkCatalog({}, { timeoutMs: licensingTimeoutMs }).then(
        ({ isDown }) => isDown,
        () => false,
      ),
    ])
    const isDown = answers.every(Boolean)
    this.#downSinceMs = isDown ? startedMs : Number.NEGATIVE_INFINITY
    return isDown
  }
}

function isUnavailable(error: unknown): boolean {
  return error instanceof ServiceError && error.code === 'unavailable'
}
