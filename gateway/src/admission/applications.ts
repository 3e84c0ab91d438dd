import { ServiceError } from '@licensing/grpc/errors'
import { LRUCache } from 'lru-cache'
import type { Services } from '../services.ts'

type Catalog = Pick<Services['catalog'], 'findApplicationOwner'>

const maxApplications = 50_000

/** Finds the account of an application. The account never changes, so answers are cached without a time limit. */
export class Applications {
  readonly #catalog: Catalog
  readonly #accounts = new LRUCache<string, string>({ max: maxApplications })
  readonly #calls = new Map<string, Promise<string>>()

  constructor(catalog: Catalog) {
    this.#catalog = catalog
  }

  /** @throws ServiceError `not_found` */
  accountOf(applicationId: string): string | Promise<string> {
    return this.#accounts.get(applicationId) ?? this.#callOnce(applicationId)
  }

  #callOnce(applicationId: string): Promise<string> {
    const running = this.#calls.get(applicationId)
    if (running) return running
    const call = this.#callCatalog(applicationId).finally(() => this.#calls.delete(applicationId))
    this.#calls.set(applicationId, call)
    return call
  }

  async #callCatalog(applicationId: string): Promise<string> {
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
