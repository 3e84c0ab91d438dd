import { decrypt, encrypt } from '@licensing/database/encryption'
import type { EncryptionKeys } from '@licensing/database/encryption'
import { CompactSign, importPKCS8 } from 'jose'
import type { JWK } from 'jose'
import { generateKeyPairSync } from 'node:crypto'

export interface NewRootKey {
  /** `lrk_` and the public key in base64url. Products have it compiled in. */
  kid: string
  applicationId: string
  privateKey: Buffer
}

/** A new root key of an application. Its private key is encrypted. */
export function newRootKey(applicationId: string, encryption: EncryptionKeys): NewRootKey {
  const { publicKey, privateKey } = generateKeyPairSync('ed25519')
  const kid = `lrk_${publicKey.export({ format: 'jwk' }).x}`
  const pem = privateKey.export({ type: 'pkcs8', format: 'pem' })
  return { kid, applicationId, privateKey: encrypt(pem, kid, encryption) }
}

/** The content of a signed key set. Times are in seconds since the epoch. */
export interface KeySetClaims {
  app_id: string
  keys: JWK[]
  iat: number
  exp: number
}

/** The claims as a compact JWS. A product verifies it with its compiled-in root key. */
export async function signKeySet(
  root: { kid: string; private_key: Buffer },
  claims: KeySetClaims,
  encryption: EncryptionKeys,
): Promise<string> {
  const key = await importPKCS8(decrypt(root.private_key, root.kid, encryption), 'EdDSA')
  return new CompactSign(new TextEncoder().encode(JSON.stringify(claims)))
    .setProtectedHeader({ alg: 'EdDSA', kid: root.kid })
    .sign(key)
}
