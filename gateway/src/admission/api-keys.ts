import { ServiceError } from '@licensing/grpc/errors'
import type { Principal } from '@licensing/proto/catalog'
import { readMember } from '@licensing/proto/closed-sets'
import { LRUCache } from 'lru-cache'
import { hash } from 'node:crypto'
import type { Services } from '../services.ts'
import type { Asker } from './key-lookups.ts'
import { KeyLookups } from './key-lookups.ts'
import { bearerOf } from './bearer.ts'

interface Entry {
  principal: Principal
  /** When the answer was asked for, not when it came: what was revoked since is not in it. */
  askedMs: number
  /** Until when it is served without asking, where the catalog was found to be unavailable. */
  waitUntilMs: number
}

/** A revoked key is refused everywhere within 2 seconds: half of that for the cache, the rest for the question. */
const freshMs = 1_000
const askMs = 900
/** How long a key that was valid is still accepted while the catalog is unavailable. */
const staleMs = 5 * 60_000
const askAgainMs = 1_000
const mostKeys = 10_000

/** Who calls: API keys looked up in the catalog by their hash, each at most once a second. */
export class ApiKeys {
  readonly #authenticateKey: Services['catalog']['authenticateKey']
  readonly #lookups: KeyLookups
  readonly #known = new LRUCache<string, Entry>({ max: mostKeys })
  readonly #refused = new LRUCache<string, true>({ max: mostKeys, ttl: freshMs })
  readonly #asked = new Map<string, { sinceMs: number; answer: Promise<Principal> }>()

  constructor(catalog: Pick<Services['catalog'], 'authenticateKey' | 'authenticateKeys'>) {
    this.#authenticateKey = catalog.authenticateKey
    this.#lookups = new KeyLookups(catalog)
  }

  /** @throws ServiceError `unauthenticated`, or `unavailable` where nobody can tell */
  principalOf(authorization: string | undefined, asker: Asker): Principal | Promise<Principal> {
    return this.principalWith(hashOfKey(bearerOf(authorization)), asker)
  }

  /**
   * @param keyHash from `hashOfKey`
   * @throws ServiceError `unauthenticated`, or `unavailable` where nobody can tell
   */
  principalWith(keyHash: string, asker: Asker): Principal | Promise<Principal> {
    const entry = this.#known.get(keyHash)
    const nowMs = Date.now()
    if (entry && (nowMs - entry.askedMs < freshMs || nowMs < entry.waitUntilMs)) return entry.principal
    if (this.#refused.has(keyHash)) throw refusal()
    return this.#askOnce(keyHash, asker)
  }

  // A question that has been under way for long may have been answered before a revocation: it is not waited for.
  #askOnce(keyHash: string, asker: Asker): Promise<Principal> {
    const nowMs = Date.now()
    const asked = this.#asked.get(keyHash)
    if (asked && nowMs - asked.sinceMs < freshMs) return asked.answer
    const answer = this.#ask(keyHash, nowMs, asker).finally(() => {
      if (this.#asked.get(keyHash)?.answer === answer) this.#asked.delete(keyHash)
    })
    this.#asked.set(keyHash, { sinceMs: nowMs, answer })
    return answer
  }

  async #ask(keyHash: string, askedMs: number, asker: Asker): Promise<Principal> {
    try {
      const principal = this.#known.has(keyHash)
        ? await this.#authenticateKey({ keyHash: Buffer.from(keyHash, 'base64') }, { timeoutMs: askMs })
        : await this.#lookups.lookUp(keyHash, asker)
      if (!principal) throw refusal()
      for (const scope of principal.scopes) readMember('scope', scope)
      this.#known.set(keyHash, { principal, askedMs, waitUntilMs: 0 })
      return principal
    } catch (error) {
      if (!(error instanceof ServiceError)) throw error
      if (error.code === 'unauthenticated' || error.code === 'not_found') {
        this.#known.delete(keyHash)
        this.#refused.set(keyHash, true)
        throw refusal()
      }
      const entry = this.#known.get(keyHash)
      if (error.code !== 'unavailable' || !entry || askedMs - entry.askedMs > staleMs) throw error
      entry.waitUntilMs = Math.min(Date.now() + askAgainMs, entry.askedMs + staleMs)
      return entry.principal
    }
  }
}

/**
 * What an API key is looked up by: its SHA-256, base64.
 *
 * @throws ServiceError `unauthenticated` for what cannot be a key
 */
export function hashOfKey(key: string | undefined): string {
  if (key === undefined || !/^lsk_[\x21-\x7e]{36,124}$/.test(key)) throw refusal()
  return hash('sha256', key, 'base64')
}

function refusal(): ServiceError {
  return new ServiceError('unauthenticated', 'the API key is missing, malformed, unknown or revoked')
}
