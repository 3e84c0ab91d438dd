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

/**
 * Converts a key that a person typed to the stored form: it ignores case, hyphens and spaces, and reads the letters that
 * Crockford's base 32 does not use as the digits that they resemble.
 *
 * @returns undefined if the text cannot be a key
 */
export function readLicenceKey(text: string): string | undefined {
  if (text.length > 100) return undefined
  const characters = text.toUpperCase().replaceAll(/[-\s]/g, '').replaceAll('O', '0').replaceAll(/[IL]/g, '1')
  if (!/^[0-9A-HJKMNP-TV-Z]{25}$/.test(characters)) return undefined
  return characters.match(/.{5}/g)!.join('-')
}
