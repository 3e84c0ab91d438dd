import type { Database } from '@licensing/database/connect'
import { decrypt, encrypt } from '@licensing/database/encryption'
import type { EncryptionKeys } from '@licensing/database/encryption'
import { newId } from '@licensing/database/ids'
import { calculateJwkThumbprint, exportJWK, exportPKCS8, generateKeyPair, importJWK, importPKCS8 } from 'jose'
import type { CryptoKey, JWK } from 'jose'
import { findSigningKeys, insertSigningKey } from './signing-key-queries.ts'
import type { SigningKeyRow } from './signing-key-queries.ts'

/** An application's keys: one signs, every one verifies. */
export interface KeySet {
  kid: string
  signingKey: CryptoKey
  publicJwks: JWK[]
  verifyingKeys: ReadonlyMap<string, CryptoKey>
}

export interface SigningKeys {
  of(applicationId: string): Promise<KeySet>
}

const algorithm = 'EdDSA'
// A rotation is known to every replica within this time, in milliseconds.
const cachedMs = 1_000

/**
 * The keys of applications (Ed25519), made when they are first needed. Private parts are encrypted at rest.
 *
 * @param lifeSeconds for how long a retired key verifies: the longest life of a token
 */
export function createSigningKeys(
  sql: Database,
  encryption: EncryptionKeys,
  lifeSeconds: number,
): SigningKeys {
  const cached = new Map<string, { untilMs: number; keys: Promise<KeySet> }>()
  const imported = new Map<string, Promise<{ signingKey: CryptoKey; verifyingKey: CryptoKey }>>()

  const load = async (applicationId: string): Promise<KeySet> => {
    let rows = await findSigningKeys(sql, applicationId, lifeSeconds)
    if (!rows.some((row) => row.retired_at === null)) {
      await insertSigningKey(sql, await newKey(applicationId, encryption))
      rows = await findSigningKeys(sql, applicationId, lifeSeconds)
    }
    const current = rows.find((row) => row.retired_at === null)
    // Retired by a rotation that ran between the two statements.
    if (!current) return load(applicationId)
    const keys = await Promise.all(
      rows.map(async (row) => {
        const made = imported.get(row.kid) ?? importKeys(row, encryption)
        imported.set(row.kid, made)
        return [row.kid, await made] as const
      }),
    )
    return {
      kid: current.kid,
      signingKey: new Map(keys).get(current.kid)!.signingKey,
      publicJwks: rows.map((row) => row.public_jwk),
      verifyingKeys: new Map(keys.map(([kid, { verifyingKey }]) => [kid, verifyingKey])),
    }
  }

  return {
    of(applicationId) {
      const known = cached.get(applicationId)
      if (known && known.untilMs > Date.now()) return known.keys
      const keys = load(applicationId)
      cached.set(applicationId, { untilMs: Date.now() + cachedMs, keys })
      keys.catch(() => cached.delete(applicationId))
      return keys
    },
  }
}

async function newKey(applicationId: string, encryption: EncryptionKeys) {
  const { publicKey, privateKey } = await generateKeyPair(algorithm, { crv: 'Ed25519', extractable: true })
  const jwk = await exportJWK(publicKey)
  const kid = `${(await calculateJwkThumbprint(jwk)).slice(0, 16)}.${newId('key').slice(-8)}`
  return {
    kid,
    applicationId,
    publicJwk: { ...jwk, kid, alg: algorithm, use: 'sig' },
    privateKey: encrypt(await exportPKCS8(privateKey), kid, encryption),
  }
}

async function importKeys(row: SigningKeyRow, encryption: EncryptionKeys) {
  const [signingKey, verifyingKey] = await Promise.all([
    importPKCS8(decrypt(row.private_key, row.kid, encryption), algorithm),
    importJWK(row.public_jwk, algorithm) as Promise<CryptoKey>,
  ])
  return { signingKey, verifyingKey }
}
