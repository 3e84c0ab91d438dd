import type { Sql } from '@licensing/database/connect'
import type { EncryptionKeys } from '@licensing/database/encryption'
import { isId } from '@licensing/database/ids'
import { isDatabaseUnavailable } from '@licensing/database/problems'
import { ServiceError } from '@licensing/grpc/errors'
import type { JWK } from 'jose'
import { LRUCache } from 'lru-cache'
import type { KeyObject } from 'node:crypto'
import { createBatcher } from '@licensing/changes/batcher'
import { importSigningKey, newSigningKey } from './new-signing-key.ts'
import { findSigningKeys, insertFirstSigningKey } from './signing-key-queries.ts'
import type { SigningKeyRow } from './signing-key-queries.ts'

/** An application's keys: one signs, all verify. */
export interface KeySet {
  kid: string
  signingKey: KeyObject
  publicJwks: JWK[]
  /** The private keys by their ids, also those that do not sign any more. */
  keys: ReadonlyMap<string, KeyObject>
}

export interface SigningKeys {
  /** The keys of an application. If it has none, its first key is made. */
  of(applicationId: string): Promise<KeySet>
  /** Like `of`, but read from the database instead of the cache. */
  latest(applicationId: string): Promise<KeySet>
  /** The private key with this id, if the application has it. */
  find(applicationId: string, kid: string): Promise<KeyObject | undefined>
}

/** How long a signed revocation list is valid. */
export const listLifeSeconds = 86_400

// Every replica learns of a rotation within this time.
const cachedMs = 1_000
const maxApplications = 10_000
// A replica that has not learnt of a rotation still signs with the retired key, and clocks differ a little.
const marginSeconds = 60

/** How long a retired key verifies: until the last token and the last list that it signed have expired. */
export function keptSeconds(tokenLifeSeconds: number): number {
  return Math.max(tokenLifeSeconds, listLifeSeconds) + marginSeconds
}

/**
 * The keys of applications (Ed25519), made when they are first needed. Private keys are stored encrypted.
 *
 * @param keptSeconds how long a retired key verifies
 */
export function createSigningKeys(
  { sql, lookups }: { sql: Sql; lookups: Sql },
  encryption: EncryptionKeys,
  keptSeconds: number,
): SigningKeys {
  const cached = new LRUCache<string, Promise<KeySet | undefined>>({ max: maxApplications, ttl: cachedMs })
  /** Applications that are known to have keys: their tokens may be genuine. */
  const withKeys = new LRUCache<string, true>({ max: maxApplications })
  const imported = new LRUCache<string, KeyObject>({ max: maxApplications })

  const importOnce = (row: SigningKeyRow): KeyObject => {
    const known = imported.get(row.kid)
    if (known) return known
    const key = importSigningKey(row, encryption)
    imported.set(row.kid, key)
    return key
  }

  const read = async (applicationId: string, from = sql): Promise<KeySet | undefined> => {
    const rows = await findSigningKeys(from, applicationId, keptSeconds)
    // If no key signs yet, the first one was stored just after this query read the clock.
    const inUse = rows.find((row) => row.signs) ?? rows.at(-1)
    if (!inUse) return undefined
    withKeys.set(applicationId, true)
    return {
      kid: inUse.kid,
      signingKey: importOnce(inUse),
      publicJwks: rows.map((row) => row.public_jwk),
      keys: new Map(rows.map((row) => [row.kid, importOnce(row)])),
    }
  }

  const readOnce = (applicationId: string): Promise<KeySet | undefined> => {
    const keys = read(applicationId)
    cached.set(applicationId, keys)
    keys.catch(() => cached.delete(applicationId))
    return keys
  }

  // Most tokens with an unknown key are forged, so their applications are looked up one after the other.
  const lookUp = createBatcher<string, KeySet | undefined>(
    async (applicationIds) => {
      const found = new Map<string, KeySet | undefined>()
      for (const id of new Set(applicationIds)) found.set(id, await read(id, lookups))
      return applicationIds.map((id) => found.get(id))
    },
    { maxBatchSize: 100, isTransient: isDatabaseUnavailable },
  )

  const withFirst = async (applicationId: string, found: Promise<KeySet | undefined>): Promise<KeySet> => {
    for (let keys = await found; ;) {
      if (keys) return keys
      await insertFirstSigningKey(sql, await newSigningKey(applicationId, encryption))
      keys = await readOnce(applicationId)
    }
  }

  return {
    of: (applicationId) => withFirst(applicationId, cached.get(applicationId) ?? readOnce(applicationId)),
    latest: (applicationId) => withFirst(applicationId, readOnce(applicationId)),
    async find(applicationId, kid) {
      const held =
        cached.get(applicationId) ?? (withKeys.has(applicationId) ? readOnce(applicationId) : undefined)
      const known = (await held)?.keys.get(kid)
      // Another replica may already sign with a newer key.
      return known ?? (await lookUp(applicationId))?.keys.get(kid)
    },
  }
}

/** Keys are made only for a well-formed id. The gateway has checked that the application exists. */
export function checkApplicationId(applicationId: string): void {
  if (!isId('app', applicationId)) {
    throw new ServiceError('not_found', `there is no application ${applicationId}`)
  }
}
