import { createCipheriv, createDecipheriv, hash, randomBytes } from 'node:crypto'

/** Keys by id. The current key encrypts; all of them decrypt. */
export type SessionKeys = { current: string; byId: ReadonlyMap<string, Buffer> }

export const sessionSeconds = 12 * 3600

const version = 2
const keyIdBytes = 4
const nonceBytes = 12
const tagBytes = 16
const headBytes = 1 + keyIdBytes + nonceBytes + tagBytes
const timeBytes = 6
const keyPurpose = Buffer.from('portal session')

/** The use of an encrypted text. A text of one purpose cannot be used for another. */
export type Purpose = 'session'

/**
 * Reads `PORTAL_SESSION_KEY`: 32 bytes in base64url. To rotate the key, put the new key and a comma before the old one, and
 * remove the old one 12 hours later.
 *
 * @throws Error; its message does not contain the key
 */
export function parseSessionKeys(text: string): SessionKeys {
  const keys = text.split(',').map((entry): [string, Buffer] => {
    const trimmed = entry.trim()
    const key = Buffer.from(trimmed, 'base64url')
    if (key.length !== 32 || !/^[A-Za-z0-9_-]{43}=?$/.test(trimmed)) {
      throw new Error('must be 32 bytes in base64url, 43 characters')
    }
    return [hash('sha256', Buffer.concat([keyPurpose, key]), 'hex').slice(0, keyIdBytes * 2), key]
  })
  return { current: keys[0]![0], byId: new Map(keys) }
}

/**
 * Encrypts a text with AES-256-GCM, so that nobody can read or make it without the key.
 *
 * @param endMs from this time on it cannot be decrypted
 */
export function encrypt(text: string, purpose: Purpose, endMs: number, keys: SessionKeys): string {
  const nonce = randomBytes(nonceBytes)
  const cipher = createCipheriv('aes-256-gcm', keys.byId.get(keys.current)!, nonce)
  cipher.setAAD(Buffer.from(purpose))
  const end = Buffer.alloc(timeBytes)
  end.writeUIntBE(endMs, 0, timeBytes)
  const encrypted = Buffer.concat([cipher.update(end), cipher.update(text, 'utf8'), cipher.final()])
  const keyId = Buffer.from(keys.current, 'hex')
  return Buffer.concat([Buffer.of(version), keyId, nonce, cipher.getAuthTag(), encrypted]).toString(
    'base64url',
  )
}

/** The encrypted text; undefined if its time is over, it was changed, or it has another key or purpose. */
export function decrypt(
  encrypted: string,
  purpose: Purpose,
  nowMs: number,
  keys: SessionKeys,
): string | undefined {
  const bytes = Buffer.from(encrypted, 'base64url')
  if (bytes.length < headBytes + timeBytes || bytes[0] !== version) return undefined
  // Other texts that decode to the same bytes would count as different ones.
  if (bytes.toString('base64url') !== encrypted) return undefined
  const key = keys.byId.get(bytes.toString('hex', 1, 1 + keyIdBytes))
  if (key === undefined) return undefined
  const nonce = bytes.subarray(1 + keyIdBytes, headBytes - tagBytes)
  const decipher = createDecipheriv('aes-256-gcm', key, nonce, { authTagLength: tagBytes })
  decipher.setAAD(Buffer.from(purpose))
  decipher.setAuthTag(bytes.subarray(headBytes - tagBytes, headBytes))
  let decrypted: Buffer
  try {
    decrypted = Buffer.concat([decipher.update(bytes.subarray(headBytes)), decipher.final()])
  } catch {
    return undefined
  }
  if (nowMs >= decrypted.readUIntBE(0, timeBytes)) return undefined
  return decrypted.toString('utf8', timeBytes)
}
