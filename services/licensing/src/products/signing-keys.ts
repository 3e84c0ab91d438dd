import type { Sql } from '@licensing/database/connect'
import type { EncryptionKeys } from '@licensing/database/encryption'
import type { CryptoKey, JWK } from 'jose'
import { LRUCache } from 'lru-cache'
import { importSigningKey, newSigningKey } from './new-signing-key.ts'
import type { ImportedKey } from './new-signing-key.ts'
import { findSigningKeys, insertFirstSigningKey } from './signing-key-queries.ts'
import type { SigningKeyRow } from './signing-key-queries.ts'

/** An application's keys: one signs, every one verifies. */
export interface KeySet {
  kid: string
  signingKey: CryptoKey
  publicJwks: JWK[]
  verifyingKeys: ReadonlyMap<string, CryptoKey>
}

export interface SigningKeys {
  /** The keys of an application, which gets its first where it has none. */
  of(applicationId: string): Promise<KeySet>
  /** The key with this id, where the application has it. */
  verifyingKey(applicationId: string, kid: string): Promise<CryptoKey | undefined>
}

// A rotation is known to every replica within this time.
const cachedMs = 1_000
const mostApplications = 10_000

/**
 * The keys of applications (Ed25519), made when they are first needed. Private parts are encrypted at rest.
 *
 * @param keptSeconds for how long a retired key verifies
 */
export function createSigningKeys(sql: Sql, encryption: EncryptionKeys, keptSeconds: number): SigningKeys {
  const cached = new LRUCache<string, Promise<KeySet | undefined>>({ max: mostApplications, ttl: cachedMs })
  const imported = new LRUCache<string, Promise<ImportedKey>>({ max: mostApplications })

  const importOnce = (row: SigningKeyRow): Promise<ImportedKey> => {
    const known = imported.get(row.kid)
    if (known) return known
    const key = importSigningKey(row, encryption)
    imported.set(row.kid, key)
    key.catch(() => imported.delete(row.kid))
    return key
  }

  const read = async (applicationId: string): Promise<KeySet | undefined> => {
    const rows = await findSigningKeys(sql, applicationId, keptSeconds)
    // Where none signs yet, the clock was read just before the first key was stored.
    const inUse = rows.find((row) => row.signs) ?? rows.at(-1)
    if (!inUse) return undefined
    const keys = await Promise.all(rows.map(async (row) => [row.kid, await importOnce(row)] as const))
    return {
      kid: inUse.kid,
      signingKey: (await importOnce(inUse)).signingKey,
      publicJwks: rows.map((row) => row.public_jwk),
      verifyingKeys: new Map(keys.map(([kid, { verifyingKey }]) => [kid, verifyingKey])),
    }
  }

  const readOnce = (applicationId: string): Promise<KeySet | undefined> => {
    const keys = read(applicationId)
    cached.set(applicationId, keys)
    keys.catch(() => cached.delete(applicationId))
    return keys
  }

  return {
    async of(applicationId) {
      for (let keys = await (cached.get(applicationId) ?? readOnce(applicationId)); ;) {
        if (keys) return keys
        await insertFirstSigningKey(sql, await newSigningKey(applicationId, encryption))
        keys = await readOnce(applicationId)
      }
    },
    async verifyingKey(applicationId, kid) {
      const known = (await cached.get(applicationId))?.verifyingKeys.get(kid)
      // Another replica may sign with a newer one already.
      return known ?? (await readOnce(applicationId))?.verifyingKeys.get(kid)
    },
  }
}
