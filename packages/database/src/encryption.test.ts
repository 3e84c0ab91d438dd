import { randomBytes } from 'node:crypto'
import { expect, test } from 'vitest'
import { decrypt, encrypt, isUnderCurrentKey, parseEncryptionKeys } from './encryption.ts'

const newKey = () => randomBytes(32).toString('base64url')
const rowId = 'whe_01h455vb4pex5vsknk084sn02q'

const newSecret = () => randomBytes(32).toString('base64url')

test('an encrypted secret is not readable, and decrypts to the same text', () => {
  const keys = parseEncryptionKeys(newKey())
  const secret = newSecret()
  const encrypted = encrypt(secret, rowId, keys)
  expect(encrypted.includes(secret)).toBe(false)
  expect(encrypt(secret, rowId, keys).equals(encrypted)).toBe(false)
  expect(decrypt(encrypted, rowId, keys)).toBe(secret)
  expect(decrypt(new Uint8Array(encrypted), rowId, keys)).toBe(secret)
})

test('encrypted bytes with any changed bit do not decrypt', () => {
  const keys = parseEncryptionKeys(newKey())
  const encrypted = encrypt(newSecret(), rowId, keys)
  for (let at = 0; at < encrypted.length; at++) {
    const changed = Buffer.from(encrypted)
    changed[at]! ^= 1
    expect(() => decrypt(changed, rowId, keys)).toThrow(
      /authenticate|no encryption key|not an encrypted secret/,
    )
  }
  expect(() => decrypt(encrypted.subarray(0, 32), rowId, keys)).toThrow('not an encrypted secret')
})

test('a secret copied to another row does not decrypt', () => {
  const keys = parseEncryptionKeys(newKey())
  const encrypted = encrypt(newSecret(), rowId, keys)
  expect(() => decrypt(encrypted, 'whe_other', keys)).toThrow('authenticate')
})

test('after a rotation the new key encrypts and the old one still decrypts', () => {
  const [old, next] = [newKey(), newKey()]
  const before = encrypt('whsec_old', rowId, parseEncryptionKeys(old))
  const both = parseEncryptionKeys(`${next}, ${old}`)
  expect(decrypt(before, rowId, both)).toBe('whsec_old')
  const after = encrypt('whsec_new', rowId, both)
  expect(decrypt(after, rowId, parseEncryptionKeys(next))).toBe('whsec_new')
  expect(() => decrypt(after, rowId, parseEncryptionKeys(old))).toThrow('no encryption key with the id')
  expect([before, after].map((encrypted) => isUnderCurrentKey(encrypted, both))).toEqual([false, true])
})

test.each([
  '',
  'short',
  randomBytes(31).toString('base64url'),
  `${newKey()},`,
  randomBytes(32).toString('hex'),
  '!'.repeat(43),
])('a key that is not 32 bytes in base64url is refused, and the error does not contain it (%#)', (text) => {
  expect(() => parseEncryptionKeys(text)).toThrow(
    /^an encryption key must be 32 bytes in base64url, 43 characters$/,
  )
})
