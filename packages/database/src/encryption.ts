import { createCipheriv, createDecipheriv, createHash, randomBytes } from 'node:crypto'

/** Keys by id. The current key encrypts; all of them decrypt. */
export type EncryptionKeys = { current: string; byId: ReadonlyMap<string, Buffer> }

const version = 1
const keyIdBytes = 4
const nonceBytes = 12
const tagBytes = 16
const headBytes = 1 + keyIdBytes + nonceBytes

/**
 * Reads `ENCRYPTION_KEY`: one or more keys of 32 bytes in base64url, separated by commas, the current one first. To rotate
 * the key, put the new one first, and remove the old one when all secrets are encrypted with the new one.
 *
 * @throws Error; its message does not contain the key
 */
export function parseEncryptionKeys(text: string): EncryptionKeys {
  const keys = text.split(',').map((entry) => {
    const trimmed = entry.trim()
    const key = Buffer.from(trimmed, 'base64url')
    if (key.length !== 32 || !/^[A-Za-z0-9_-]{43}=?$/.test(trimmed)) {
      throw new Error('an encryption key must be 32 bytes in base64url, 43 characters')
    }
    return [idOf(key), key] as const
  })
  return { current: keys[0]![0], byId: new Map(keys) }
}

/**
 * Encrypts a secret for a column with AES-256-GCM. The bytes are version, key id, nonce, tag and ciphertext, in this order.
 *
 * @param boundTo id of the row; the bytes do not decrypt for another row
 */
export function encrypt(secret: string, boundTo: string, keys: EncryptionKeys): Buffer {
  const nonce = randomBytes(nonceBytes)
  const cipher = createCipheriv('aes-256-gcm', keys.byId.get(keys.current)!, nonce)
  cipher.setAAD(Buffer.from(boundTo))
  const ciphertext = Buffer.concat([cipher.update(secret, 'utf8'), cipher.final()])
  return Buffer.concat([
    Buffer.of(version),
    Buffer.from(keys.current, 'hex'),
    nonce,
    cipher.getAuthTag(),
    ciphertext,
  ])
}

/** @throws Error if the key is not configured, or if the bytes were changed or belong to another row */
export function decrypt(encrypted: Uint8Array, boundTo: string, keys: EncryptionKeys): string {
  const bytes = wellFormed(encrypted)
  const keyId = keyIdOf(bytes)
  const key = keys.byId.get(keyId)
  if (key === undefined) throw new Error(`no encryption key with the id ${keyId} is configured`)
  const decipher = createDecipheriv('aes-256-gcm', key, bytes.subarray(1 + keyIdBytes, headBytes))
  decipher.setAAD(Buffer.from(boundTo))
  decipher.setAuthTag(bytes.subarray(headBytes, headBytes + tagBytes))
  return decipher.update(bytes.subarray(headBytes + tagBytes), undefined, 'utf8') + decipher.final('utf8')
}

/** Whether a secret is encrypted with the current key. If not, it must be re-encrypted before its key is removed. */
export function isUnderCurrentKey(encrypted: Uint8Array, keys: EncryptionKeys): boolean {
  return keyIdOf(wellFormed(encrypted)) === keys.current
}

function wellFormed(encrypted: Uint8Array): Buffer {
  const bytes = Buffer.from(encrypted.buffer, encrypted.byteOffset, encrypted.byteLength)
  if (bytes[0] !== version || bytes.length < headBytes + tagBytes) throw new Error('not an encrypted secret')
  return bytes
}

const keyIdOf = (bytes: Buffer) => bytes.toString('hex', 1, 1 + keyIdBytes)

const idOf = (key: Buffer) =>
  createHash('sha256')
    .update('key id')
    .update(key)
    .digest('hex')
    .slice(0, keyIdBytes * 2)
