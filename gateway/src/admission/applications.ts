import { ServiceError } from '@licensing/grpc/errors'
import { LRUCache } from 'lru-cache'
import type { Services } from '../services.ts'

type Catalog = Pick<Services['catalog'], 'findApplicationOwner'>

const mostApplications = 50_000

/** Finds the account of an application. The account never changes, so answers are cached without a time limit. */
export class Applications {
  readonly #catalog: Catalog
  readonly #accounts = new LRUCache<string, string>({ max: mostApplications })
  readonly #asked = new Map<string, Promise<string>>()

  constructor(catalog: Catalog) {
    this.#catalog = catalog
  }

  /** @throws ServiceError `not_found` */
  accountOf(applicationId: string): string | Promise<string> {
    return this.#accounts.get(applicationId) ?? this.#askOnce(applicationId)
  }

  #askOnce(applicationId: string): Promise<string> {
    const asked = this.#asked.get(applicationId)
    if (asked) return asked
    const asking = this.#ask(applicationId).finally(() => this.#asked.delete(applicationId))
    this.#asked.set(applicationId, asking)
    return asking
  }

  async #ask(applicationId: string): Promise<string> {
    try {
      const { accountId } = await this.#catalog.findApplicationOwner({ applicationId })
      this.#accounts.set(applicationId, accountId)
      return accountId
    } catch (error) {
      if (error instanceof ServiceError && error.code === 'not_found') throw noApplication(applicationId)
      throw error
    }
  }
}

export function noApplication(applicationId: string): ServiceError {
  return new ServiceError('not_found', `there is no application ${applicationId}`)
}
