import { decrypt, encrypt } from '@licensing/database/encryption'
import type { EncryptionKeys } from '@licensing/database/encryption'
import { calculateJwkThumbprint } from 'jose'
import { createPrivateKey, generateKeyPairSync } from 'node:crypto'
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

/** The private key of a row. */
export function importSigningKey(
  row: Pick<SigningKeyRow, 'kid' | 'private_key'>,
  encryption: EncryptionKeys,
): KeyObject {
  return createPrivateKey(decrypt(row.private_key, row.kid, encryption))
}
