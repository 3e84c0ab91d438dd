import { createCipheriv, createDecipheriv, hash, randomBytes } from 'node:crypto'

/** Keys by their id; the first seals, every one opens. */
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
 * `PORTAL_SESSION_KEY`: 32 bytes in base64url. To rotate, put the new key before the old one with a comma between, and
 * drop the old one 12 hours later. Throws on anything else, without repeating it.
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
 * A session that nobody can read or make without the key (AES-256-GCM). It holds the API key's hash and not the key:
 * one who has the session key cannot read an API key out of a cookie.
 *
 * @param keyHash SHA-256 of the API key, base64
 */
export function sealSession(keyHash: string, nowMs: number, keys: SessionKeys): string {
  const nonce = randomBytes(nonceBytes)
  const cipher = createCipheriv('aes-256-gcm', keys.byId.get(keys.current)!, nonce)
  cipher.setAAD(purpose)
  const end = Buffer.alloc(timeBytes)
  end.writeUIntBE(nowMs + sessionSeconds * 1000, 0, timeBytes)
  const sealed = Buffer.concat([
    cipher.update(Buffer.concat([end, Buffer.from(keyHash, 'base64')])),
    cipher.final(),
  ])
  const keyId = Buffer.from(keys.current, 'hex')
  return Buffer.concat([Buffer.of(version), keyId, nonce, cipher.getAuthTag(), sealed]).toString('base64url')
}

/** The hash of the API key in a session; undefined for one that is over, was changed, or is under no key of these. */
export function openSession(text: string, nowMs: number, keys: SessionKeys): string | undefined {
  const bytes = Buffer.from(text, 'base64url')
  if (bytes.length !== headBytes + timeBytes + keyHashBytes || bytes[0] !== version) return undefined
  const key = keys.byId.get(bytes.toString('hex', 1, 1 + keyIdBytes))
  if (key === undefined) return undefined
  const nonce = bytes.subarray(1 + keyIdBytes, headBytes - tagBytes)
  const decipher = createDecipheriv('aes-256-gcm', key, nonce, { authTagLength: tagBytes })
  decipher.setAAD(purpose)
  decipher.setAuthTag(bytes.subarray(headBytes - tagBytes, headBytes))
  let opened: Buffer
  try {
    opened = Buffer.concat([decipher.update(bytes.subarray(headBytes)), decipher.final()])
  } catch {
    return undefined
  }
  if (nowMs >= opened.readUIntBE(0, timeBytes)) return undefined
  return opened.toString('base64', timeBytes)
}
