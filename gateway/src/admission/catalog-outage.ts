import { ServiceError } from '@licensing/grpc/errors'
import type { Services } from '../services.ts'

const askCatalogMs = 300
const askLicensingMs = 700
/** How long an answer is used, counted from the question. A restarted catalog can revoke a key at once. */
const knownMs = 1_000
const askAgainMs = 400

/**
 * Finds out whether catalog is down for everybody and not only unreachable from this gateway. It is down if licensing, which
 * has its own connection, cannot connect to it either. Then nobody can revoke an API key.
 */
export class CatalogOutage {
  readonly #services: Pick<Services, 'catalog' | 'licensing'>
  #asked: Promise<boolean> | undefined
  #downAskedMs = Number.NEGATIVE_INFINITY

  constructor(services: Pick<Services, 'catalog' | 'licensing'>) {
    this.#services = services
  }

  /** Whether catalog is known to be down. Renews the answer in advance, so that no request waits for it during an outage. */
  isKnown(): boolean {
    const ageMs = performance.now() - this.#downAskedMs
    if (ageMs >= knownMs) return false
    if (ageMs >= askAgainMs) void this.ask()
    return true
  }

  ask(): Promise<boolean> {
    this.#asked ??= this.#ask().finally(() => (this.#asked = undefined))
    return this.#asked
  }

  async #ask(): Promise<boolean> {
    const { catalog, licensing } = this.#services
    const askedMs = performance.now()
    const answers = await Promise.all([
      catalog
        .authenticateKeys({ keyHashes: [] }, { timeoutMs: askCatalogMs })
        .then(() => false, isUnavailable),
      licensing.checkCatalog({}, { timeoutMs: askLicensingMs }).then(
        ({ isDown }) => isDown,
        () => false,
      ),
    ])
    const isDown = answers.every(Boolean)
    this.#downAskedMs = isDown ? askedMs : Number.NEGATIVE_INFINITY
    return isDown
  }
}

function isUnavailable(error: unknown): boolean {
  return error instanceof ServiceError && error.code === 'unavailable'
}
