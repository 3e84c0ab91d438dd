import { hash, randomBytes } from 'node:crypto'
import { expect, test } from 'vitest'
import { decrypt, encrypt, parseSessionKeys, sessionSeconds } from './session-encryption.ts'
import type { SessionKeys } from './session-encryption.ts'

const newKey = () => randomBytes(32).toString('base64url')
const keyHash = hash('sha256', 'lsk_of_the_test', 'base64')
const keys = parseSessionKeys(newKey())
const nowMs = Date.parse('2026-11-22T12:00:00.000Z')

const encryptSession = (text: string, atMs: number, by: SessionKeys) =>
  encrypt(text, 'session', atMs + sessionSeconds * 1000, by)
const decryptSession = (text: string, atMs: number, by: SessionKeys) => decrypt(text, 'session', atMs, by)

test('a session can be opened for 12 hours', () => {
  const session = encryptSession(keyHash, nowMs, keys)
  expect(sessionSeconds).toBe(43_200)
  expect(decryptSession(session, nowMs, keys)).toBe(keyHash)
  expect(decryptSession(session, nowMs + 43_200_000 - 1, keys)).toBe(keyHash)
  expect(decryptSession(session, nowMs + 43_200_000, keys)).toBeUndefined()
})

test('a session with any changed bit cannot be opened', () => {
  const bytes = Buffer.from(encryptSession(keyHash, nowMs, keys), 'base64url')
  for (let bit = 0; bit < bytes.length * 8; bit++) {
    const changed = Buffer.from(bytes)
    changed[bit >> 3]! ^= 1 << (bit & 7)
    expect(decryptSession(changed.toString('base64url'), nowMs, keys), `bit ${bit}`).toBeUndefined()
  }
  for (const text of [
    '',
    'x',
    bytes.subarray(1).toString('base64url'),
    `${bytes.toString('base64url')}AAAA`,
  ]) {
    expect(decryptSession(text, nowMs, keys)).toBeUndefined()
  }
})

test('a session reveals nothing of the key, and no two sessions are equal', () => {
  const [one, other] = [encryptSession(keyHash, nowMs, keys), encryptSession(keyHash, nowMs, keys)]
  expect(one).not.toBe(other)
  expect(Buffer.from(one, 'base64url').includes(Buffer.from(keyHash, 'base64'))).toBe(false)
})

test('another key does not open a session; during a rotation, sessions of both keys can be opened', () => {
  const [before, after] = [newKey(), newKey()]
  const session = encryptSession(keyHash, nowMs, parseSessionKeys(before))
  expect(decryptSession(session, nowMs, parseSessionKeys(after))).toBeUndefined()
  const both = parseSessionKeys(`${after},${before}`)
  expect(decryptSession(session, nowMs, both)).toBe(keyHash)
  expect(decryptSession(encryptSession(keyHash, nowMs, both), nowMs, parseSessionKeys(after))).toBe(keyHash)
})

test('the error for an invalid key does not contain the key', () => {
  for (const text of ['', 'short-secret', `${newKey()},short-secret`, `${newKey()}!`]) {
    expect(() => parseSessionKeys(text)).toThrow(/^must be 32 bytes in base64url, 43 characters$/)
  }
})
