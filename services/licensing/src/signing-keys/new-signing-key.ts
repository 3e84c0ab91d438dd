import { decrypt, encrypt } from '@licensing/database/encryption'
import type { EncryptionKeys } from '@licensing/database/encryption'
import { calculateJwkThumbprint, exportJWK, exportPKCS8, generateKeyPair, importJWK, importPKCS8 } from 'jose'
import type { CryptoKey } from 'jose'
import type { NewSigningKey, SigningKeyRow } from './signing-key-queries.ts'

export const algorithm = 'EdDSA'

/** A new Ed25519 key of an application. Its private key is encrypted. */
export async function newSigningKey(
  applicationId: string,
  encryption: EncryptionKeys,
): Promise<NewSigningKey> {
  const { publicKey, privateKey } = await generateKeyPair(algorithm, { crv: 'Ed25519', extractable: true })
  const jwk = await exportJWK(publicKey)
  // RFC 7638: a hash of the key, so that two keys never have the same id.
  const kid = await calculateJwkThumbprint(jwk)
  return {
    kid,
    applicationId,
    publicJwk: { ...jwk, kid, alg: algorithm, use: 'sig' },
    privateKey: encrypt(await exportPKCS8(privateKey), kid, encryption),
  }
}

export interface ImportedKey {
  signingKey: CryptoKey
  verifyingKey: CryptoKey
}

export async function importSigningKey(
  row: Pick<SigningKeyRow, 'kid' | 'private_key' | 'public_jwk'>,
  encryption: EncryptionKeys,
): Promise<ImportedKey> {
  const [signingKey, verifyingKey] = await Promise.all([
    importPKCS8(decrypt(row.private_key, row.kid, encryption), algorithm),
    importJWK(row.public_jwk, algorithm) as Promise<CryptoKey>,
  ])
  return { signingKey, verifyingKey }
}
