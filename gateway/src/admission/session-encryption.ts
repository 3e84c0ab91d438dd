import { createCipheriv, createDecipheriv, hash, randomBytes } from 'node:crypto'

/** Keys by id. The current key encrypts sessions; all of them decrypt. */
export type SessionKeys = { current: string; byId: ReadonlyMap<string, Buffer> }

export const sessionSeconds = 12 * 3600

const version = 1
const keyIdBytes = 4
const nonceBytes = 12
const tagBytes = 16
const headBytes = 1 + keyIdBytes + nonceBytes + tagBytes
const timeBytes = 6
const keyHashBytes = 32
const purpose = Buffer.from('portal session')

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
    return [hash('sha256', Buffer.concat([purpose, key]), 'hex').slice(0, keyIdBytes * 2), key]
  })
  return { current: keys[0]![0], byId: new Map(keys) }
}

/**
 * Encrypts a session with AES-256-GCM, so that nobody can read or make it without the session key. It contains only the hash
 * of the API key, so that even with the session key nobody can read an API key from a cookie.
 *
 * @param keyHash SHA-256 of the API key, base64
 */
export function encryptSession(keyHash: string, nowMs: number, keys: SessionKeys): string {
  const nonce = randomBytes(nonceBytes)
  const cipher = createCipheriv('aes-256-gcm', keys.byId.get(keys.current)!, nonce)
  cipher.setAAD(purpose)
  const end = Buffer.alloc(timeBytes)
  end.writeUIntBE(nowMs + sessionSeconds * 1000, 0, timeBytes)
  const encrypted = Buffer.concat([
    cipher.update(Buffer.concat([end, Buffer.from(keyHash, 'base64')])),
    cipher.final(),
  ])
  const keyId = Buffer.from(keys.current, 'hex')
  return Buffer.concat([Buffer.of(version), keyId, nonce, cipher.getAuthTag(), encrypted]).toString(
    'base64url',
  )
}

/** The hash of the API key in a session; undefined if the session has expired, was changed, or has another key. */
export function decryptSession(text: string, nowMs: number, keys: SessionKeys): string | undefined {
  const bytes = Buffer.from(text, 'base64url')
  if (bytes.length !== headBytes + timeBytes + keyHashBytes || bytes[0] !== version) return undefined
  const key = keys.byId.get(bytes.toString('hex', 1, 1 + keyIdBytes))
  if (key === undefined) return undefined
  const nonce = bytes.subarray(1 + keyIdBytes, headBytes - tagBytes)
  const decipher = createDecipheriv('aes-256-gcm', key, nonce, { authTagLength: tagBytes })
  decipher.setAAD(purpose)
  decipher.setAuthTag(bytes.subarray(headBytes - tagBytes, headBytes))
  let decrypted: Buffer
  try {
    decrypted = Buffer.concat([decipher.update(bytes.subarray(headBytes)), decipher.final()])
  } catch {
    return undefined
  }
  if (nowMs >= decrypted.readUIntBE(0, timeBytes)) return undefined
  return decrypted.toString('base64', timeBytes)
}
