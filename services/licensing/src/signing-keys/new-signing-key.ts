import { decrypt, encrypt } from '@licensing/database/encryption'
import type { EncryptionKeys } from '@licensing/database/encryption'
import { calculateJwkThumbprint } from 'jose'
import { createPrivateKey, createPublicKey, generateKeyPairSync } from 'node:crypto'
import type { KeyObject } from 'node:crypto'
import type { NewSigningKey, SigningKeyRow } from './signing-key-queries.ts'

export const algorithm = 'EdDSA'

/** A new Ed25519 key of an application. Its private key is encrypted. */
export async function newSigningKey(
  applicationId: string,
  encryption: EncryptionKeys,
): Promise<NewSigningKey> {
  const { publicKey, privateKey } = generateKeyPairSync('ed25519')
  const jwk = publicKey.export({ format: 'jwk' })
  // RFC 7638: a hash of the key, so that two keys never have the same id.
  const kid = await calculateJwkThumbprint(jwk)
  return {
    kid,
    applicationId,
    publicJwk: { ...jwk, kid, alg: algorithm, use: 'sig' },
    privateKey: encrypt(privateKey.export({ type: 'pkcs8', format: 'pem' }), kid, encryption),
  }
}

export interface ImportedKey {
  signingKey: KeyObject
  verifyingKey: KeyObject
}

export function importSigningKey(
  row: Pick<SigningKeyRow, 'kid' | 'private_key' | 'public_jwk'>,
  encryption: EncryptionKeys,
): ImportedKey {
  return {
    signingKey: createPrivateKey(decrypt(row.private_key, row.kid, encryption)),
    verifyingKey: createPublicKey({ key: row.public_jwk, format: 'jwk' }),
  }
}
