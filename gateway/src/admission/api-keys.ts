import { ServiceError } from '@licensing/grpc/errors'
import type { Principal } from '@licensing/proto/catalog'
import { readMember } from '@licensing/proto/closed-sets'
import { LRUCache } from 'lru-cache'
import { hash } from 'node:crypto'
import type { Services } from '../services.ts'
import { CatalogOutage } from './catalog-outage.ts'
import { KeyLookups } from './key-lookups.ts'
import type { Requester, FoundKey } from './key-lookups.ts'

/** Catalog is asked again after this time. */
const recheckMs = 1_000
/** Older answers are not used, because a revoked key must be refused everywhere within 2 seconds. */
const confirmedMs = 2_000
/** Timeouts of two attempts. If a replica does not answer the first, the second goes to the next replica. */
const timeoutsMs = [500, 1_000]
/** How long a key that was valid is accepted while catalog is down. */
const outageMs = 5 * 60_000
const maxKeys = 10_000

/**
 * Identifies callers: looks up API keys in catalog by their hash, each at most once a second. A key that catalog has not
 * confirmed in the last 2 seconds is accepted only while catalog is down for all gateways
 * (docs/decisions/0026-keys-are-confirmed.md).
 */
export class ApiKeys {
  readonly #authenticateKey: Services['catalog']['authenticateKey']
  readonly #outage: CatalogOutage
  readonly #lookups: KeyLookups
  readonly #known = new LRUCache<string, FoundKey>({ max: maxKeys })
  readonly #refused = new LRUCache<string, true>({ max: maxKeys, ttl: recheckMs })
  readonly #calls = new Map<string, { sinceMs: number; answer: Promise<Principal> }>()

  constructor(services: Pick<Services, 'catalog' | 'licensing'>) {
    this.#authenticateKey = services.catalog.authenticateKey
    this.#lookups = new KeyLookups(services.catalog)
    this.#outage = new CatalogOutage(services)
  }

  /**
   * @param keyHash from `hashOfKey`
   * @throws ServiceError `unauthenticated`, or `unavailable` if the key cannot be checked now
   */
  principalOf(keyHash: string, requester: Requester): Principal | Promise<Principal> {
    const entry = this.#known.get(keyHash)
    if (entry && ageOf(entry) < recheckMs) return entry.principal
    if (entry && ageOf(entry) < outageMs && this.#outage.isKnown()) return entry.principal
    if (this.#refused.has(keyHash)) throw refusal()
    return this.#callOnce(keyHash, requester)
  }

  // If a call took long, catalog may have answered it before a revocation, so its answer is not used.
  #callOnce(keyHash: string, requester: Requester): Promise<Principal> {
    const nowMs = performance.now()
    const running = this.#calls.get(keyHash)
    if (running && nowMs - running.sinceMs < recheckMs) return running.answer
    const call = this.#known.has(keyHash) ? this.#confirm(keyHash) : this.#lookUp(keyHash, requester)
    const answer = call
      .catch((error: unknown) => this.#refuse(keyHash, error))
      .finally(() => {
        if (this.#calls.get(keyHash)?.answer === answer) this.#calls.delete(keyHash)
      })
    this.#calls.set(keyHash, { sinceMs: nowMs, answer })
    return answer
  }

  async #lookUp(keyHash: string, requester: Requester): Promise<Principal> {
    const found = await this.#lookups.lookUp(keyHash, requester)
    if (!found) throw refusal()
    if (ageOf(found) >= confirmedMs)
      throw new ServiceError('unavailable', 'the API key could not be checked in time')
    return this.#remember(keyHash, found)
  }

  async #confirm(keyHash: string): Promise<Principal> {
    let unanswered: unknown
    for (const timeoutMs of timeoutsMs) {
      try {
        const calledMs = performance.now()
        const request = { keyHash: Buffer.from(keyHash, 'base64') }
        const principal = await this.#authenticateKey(request, { timeoutMs })
        return this.#remember(keyHash, { principal, calledMs })
      } catch (error) {
        if (!(error instanceof ServiceError) || error.code !== 'unavailable') throw error
        unanswered = error
      }
      const asking = this.#outage.check()
      const entry = this.#known.get(keyHash)
      if (entry && ageOf(entry) < confirmedMs) return entry.principal
      if (entry && ageOf(entry) < outageMs && (await asking)) return entry.principal
    }
    throw unanswered
  }

  #remember(keyHash: string, found: FoundKey): Principal {
    for (const scope of found.principal.scopes) readMember('scope', scope)
    // A later call has already found that the key is invalid.
    if (this.#refused.has(keyHash)) throw refusal()
    this.#known.set(keyHash, found)
    return found.principal
  }

  #refuse(keyHash: string, error: unknown): never {
    const isRefused =
      error instanceof ServiceError && (error.code === 'unauthenticated' || error.code === 'not_found')
    if (!isRefused) throw error
    this.#known.delete(keyHash)
    this.#refused.set(keyHash, true)
    throw refusal()
  }
}

/** Time since the call, not since its answer, because the answer may not include a revocation made after the call. */
function ageOf({ calledMs }: FoundKey): number {
  return performance.now() - calledMs
}

/**
 * The hash of an API key with which it is looked up: SHA-256 in base64.
 *
 * @throws ServiceError `unauthenticated` if the text does not have the form of an API key
 */
export function hashOfKey(key: string | undefined): string {
  if (key === undefined) {
    throw new ServiceError('unauthenticated', 'the API key is missing: send Authorization: Bearer <API key>')
  }
  if (!/^lsk_[\x21-\x7e]{36,124}$/.test(key)) throw refusal()
  return hash('sha256', key, 'base64')
}

function refusal(): ServiceError {
  return new ServiceError('unauthenticated', 'the API key is malformed, unknown or revoked')
}

/** The credentials of `Authorization: Bearer …`; undefined for any other header. */
export function bearerOf(authorization: string | undefined): string | undefined {
  if (authorization === undefined) return undefined
  return /^bearer +([\x21-\x7e]+)$/i.exec(authorization)?.[1]
}
