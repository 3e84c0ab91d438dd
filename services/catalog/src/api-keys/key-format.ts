import { createHash, randomInt } from 'node:crypto'
import { crc32 } from 'node:zlib'

const base62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'

/** A new key: `lsk_`, 6 public characters, `_`, 43 secret characters (256 bits) and a checksum for secret scanners. */
export function newKey(): string {
  const body = `lsk_${randomText(6)}_${randomText(43)}`
  return body + checksumOf(body)
}

/** The hash under which a key is stored and found. */
export function hashOfKey(key: string): Buffer {
  return createHash('sha256').update(key).digest()
}

/** CRC-32 of the rest of the key, in 6 base-62 digits. */
export function checksumOf(body: string): string {
  let rest = crc32(body)
  let digits = ''
  for (let place = 0; place < 6; place += 1) {
    digits = base62.charAt(rest % 62) + digits
    rest = Math.floor(rest / 62)
  }
  return digits
}

function randomText(length: number): string {
  return Array.from({ length }, () => base62.charAt(randomInt(62))).join('')
}
