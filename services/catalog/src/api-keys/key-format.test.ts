import { expect, test } from 'vitest'
import { checksumOf, hashOfKey, newKey } from './key-format.ts'

test('a new key can be recognised by its form and checksum', () => {
  const keys = Array.from({ length: 1000 }, newKey)
  for (const key of keys) {
    expect(key).toMatch(/^lsk_[0-9A-Za-z]{6}_[0-9A-Za-z]{49}$/)
    expect(checksumOf(key.slice(0, -6))).toBe(key.slice(-6))
  }
  expect(new Set(keys).size).toBe(keys.length)
})

test('a checksum is the CRC-32 in six base-62 digits, and changes with every character', () => {
  // CRC-32 of the standard check string is cbf43926, 3421780262.
  expect(checksumOf('123456789')).toBe('3jZRME')
  expect(checksumOf('')).toBe('000000')
  const key = newKey().slice(0, -6)
  const other = key.slice(0, -1) + (key.endsWith('a') ? 'b' : 'a')
  expect(checksumOf(other)).not.toBe(checksumOf(key))
})

test('a key is stored as its SHA-256', () => {
  expect(hashOfKey('abc').toString('hex')).toBe(
    'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad',
  )
})
