import { randomBytes } from 'node:crypto'

const alphabet = '0123456789ABCDEFGHJKMNPQRSTVWXYZ'
const groups = 5
const groupLength = 5

/** A licence key: 25 characters of Crockford base 32 in five groups, 125 random bits. */
export function newLicenceKey(): string {
  const bytes = randomBytes(groups * groupLength)
  let key = ''
  for (let at = 0; at < bytes.length; at += 1) {
    if (at > 0 && at % groupLength === 0) key += '-'
    key += alphabet[bytes[at]! & 31]
  }
  return key
}
