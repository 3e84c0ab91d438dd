import { randomBytes } from 'node:crypto'
import { expect, test } from 'vitest'
import { decryptSecret, encryptSecret, newSecret, parseEncryptionKeys } from './secret.ts'

const newKey = () => randomBytes(32).toString('base64url')
const endpointId = 'whe_01h455vb4pex5vsknk084sn02q'

test('a secret is whsec_ and 43 characters of base 64 url, and never the same twice', () => {
  const secrets = Array.from({ length: 100 }, newSecret)
  expect(new Set(secrets).size).toBe(100)
  for (const secret of secrets) expect(secret).toMatch(/^whsec_[A-Za-z0-9_-]{43}$/)
})

test('what is encrypted is not readable, and comes back whole', () => {
  const keys = parseEncryptionKeys(newKey())
  const secret = newSecret()
  const encrypted = encryptSecret(secret, endpointId, keys)
  expect(encrypted.includes(secret.slice(6))).toBe(false)
  expect(encryptSecret(secret, endpointId, keys).equals(encrypted)).toBe(false)
  expect(decryptSecret(encrypted, endpointId, keys)).toBe(secret)
  expect(decryptSecret(new Uint8Array(encrypted), endpointId, keys)).toBe(secret)
})

test('no bit of it can be changed', () => {
  const keys = parseEncryptionKeys(newKey())
  const encrypted = encryptSecret(newSecret(), endpointId, keys)
  for (let at = 0; at < encrypted.length; at++) {
    const changed = Buffer.from(encrypted)
    changed[at]! ^= 1
    expect(() => decryptSecret(changed, endpointId, keys)).toThrow(
      /authenticate|no encryption key|not an encrypted secret/,
    )
  }
  expect(() => decryptSecret(encrypted.subarray(0, 32), endpointId, keys)).toThrow('not an encrypted secret')
})

test('the secret of one endpoint is of no use to another', () => {
  const keys = parseEncryptionKeys(newKey())
  const encrypted = encryptSecret(newSecret(), endpointId, keys)
  expect(() => decryptSecret(encrypted, 'whe_other', keys)).toThrow('authenticate')
})

test('after a rotation the new key encrypts and the old one still decrypts', () => {
  const [old, next] = [newKey(), newKey()]
  const before = encryptSecret('whsec_old', endpointId, parseEncryptionKeys(old))
  const both = parseEncryptionKeys(`${next}, ${old}`)
  expect(decryptSecret(before, endpointId, both)).toBe('whsec_old')
  const after = encryptSecret('whsec_new', endpointId, both)
  expect(decryptSecret(after, endpointId, parseEncryptionKeys(next))).toBe('whsec_new')
  expect(() => decryptSecret(after, endpointId, parseEncryptionKeys(old))).toThrow(
    'no encryption key with the id',
  )
})

test.each([
  '',
  'short',
  randomBytes(31).toString('base64url'),
  `${newKey()},`,
  randomBytes(32).toString('hex'),
  '!'.repeat(43),
])('a key that is not 32 bytes in base 64 url is refused and not repeated (%#)', (text) => {
  expect(() => parseEncryptionKeys(text)).toThrow(
    /^an encryption key must be 32 bytes in base64url, 43 characters$/,
  )
})
