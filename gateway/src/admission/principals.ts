import { ServiceError } from '@licensing/grpc/errors'
import type { Principal } from '@licensing/proto/catalog'
import { readMember } from '@licensing/proto/closed-sets'
import { LRUCache } from 'lru-cache'
import { hash } from 'node:crypto'
import { isId } from '../fields/id.ts'
import type { Services } from '../services.ts'
import { KeyLookups } from './key-lookups.ts'
import type { FoundKey } from './key-lookups.ts'

/** A revoked key must be refused everywhere within 2 seconds. */
const confirmedMs = 2_000
/** How long a key counts after its last confirmation while catalog cannot be reached. */
const outageMs = 60_000
/**
 * A call that failed says for this time that catalog cannot be reached. It is counted from the call, and shorter than
 * `confirmedMs`, because a key can be revoked as soon as catalog is back. It is longer than two calls, so that during an outage
 * no request waits for a call.
 */
const unreachableMs = 1_800
const timeoutMs = 800
const maxKnown = 10_000

interface KnownPrincipal extends FoundKey {
  /** Time of the latest call that failed, on the monotonic clock. */
  failedMs?: number
}

/**
 * Identifies callers: looks up their credential in catalog (docs/decisions/0026-keys-are-confirmed.md). The credential is the hash
 * of an API key, or the id of a member from a session of the portal.
 */
export class Principals {
  readonly #catalog: Services['catalog']
  readonly #lookups: KeyLookups
  /** Only credentials that catalog has confirmed, so that made-up ones do not displace them. */
  readonly #known = new LRUCache<string, KnownPrincipal>({ max: maxKnown })
  readonly #calls = new Map<string, Promise<Principal>>()

  constructor(catalog: Services['catalog']) {
    this.#catalog = catalog
    this.#lookups = new KeyLookups(catalog)
  }

  /**
   * @param credential from `hashOfKey` or a session
   * @param caller from `limitKeyOf`
   * @throws ServiceError `unauthenticated`, or `unavailable` if it cannot be checked now
   */
  principalOf(credential: string, caller: string): Principal | Promise<Principal> {
    const known = this.#known.get(credential)
    if (known && ageOf(known.calledMs) < confirmedMs) return known.principal
    const confirmed = this.#confirmOnce(credential, caller)
    if (!known || !isAcceptedWithout(known)) return confirmed
    confirmed.catch(() => undefined)
    return known.principal
  }

  #confirmOnce(credential: string, caller: string): Promise<Principal> {
    const running = this.#calls.get(credential)
    if (running) return running
    const call = this.#confirm(credential, caller).finally(() => this.#calls.delete(credential))
    this.#calls.set(credential, call)
    return call
  }

  async #confirm(credential: string, caller: string): Promise<Principal> {
    const known = this.#known.get(credential)
    const calledMs = performance.now()
    try {
      // Nobody can make up a session, so a member that is not known is asked for like a known key.
      const found =
        known || isId('usr', credential)
          ? { principal: await this.#ask(credential), calledMs }
          : await this.#lookups.lookUp(caller, credential)
      if (!found) throw refusal(credential)
      for (const scope of found.principal.scopes) readMember('scope', scope)
      this.#known.set(credential, found)
      return found.principal
    } catch (error) {
      if (!(error instanceof ServiceError)) throw error
      if (error.code === 'unavailable' && known && ageOf(known.calledMs) < outageMs) {
        this.#known.set(credential, { ...known, failedMs: calledMs })
        return known.principal
      }
      if (error.code !== 'unauthenticated' && error.code !== 'not_found') throw error
      this.#known.delete(credential)
      throw refusal(credential)
    }
  }

  #ask(credential: string): Promise<Principal> {
    if (isId('usr', credential))
      return this.#catalog.authenticateMember({ memberId: credential }, { timeoutMs })
    return this.#catalog.authenticateKey({ keyHash: Buffer.from(credential, 'base64') }, { timeoutMs })
  }
}

/** Whether catalog, which has confirmed the key, cannot be reached at the moment. */
function isAcceptedWithout({ calledMs, failedMs }: KnownPrincipal): boolean {
  return failedMs !== undefined && ageOf(failedMs) < unreachableMs && ageOf(calledMs) < outageMs
}

/** Time since a call, not since its answer, because the answer may not include a revocation made after the call. */
const ageOf = (calledMs: number) => performance.now() - calledMs

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

function refusal(credential?: string): ServiceError {
  return new ServiceError(
    'unauthenticated',
    credential !== undefined && isId('usr', credential)
      ? 'you are not a member of this account any more: ask an owner of it'
      : 'the API key is malformed, unknown or revoked',
  )
}

/** The credentials of `Authorization: Bearer …`; undefined for any other header. */
export function bearerOf(authorization: string | undefined): string | undefined {
  if (authorization === undefined) return undefined
  return /^bearer +([\x21-\x7e]+)$/i.exec(authorization)?.[1]
}
