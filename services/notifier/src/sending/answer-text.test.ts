import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { excerptOf, retryAfterSeconds } from './answer-text.ts'

test('an excerpt of any bytes at all is valid UTF-8 of at most 1 KiB without NULs', () => {
  fc.assert(
    fc.property(fc.array(fc.uint8Array({ maxLength: 700 }), { maxLength: 4 }), (chunks) => {
      const text = excerptOf(chunks.map((chunk) => Buffer.from(chunk))) ?? ''
      expect(Buffer.byteLength(text)).toBeLessThanOrEqual(1024)
      expect(text.isWellFormed()).toBe(true)
      expect(text).not.toContain('\0')
    }),
  )
})

test('text is kept as it is, and cut between two characters', () => {
  expect(excerptOf([Buffer.from('Grüße, '), Buffer.from('世界')])).toBe('Grüße, 世界')
  expect(excerptOf([Buffer.from(`a${'ü'.repeat(600)}`)])).toBe(`a${'ü'.repeat(511)}`)
  expect(excerptOf([Buffer.from('a\0b')])).toBe('ab')
  expect(excerptOf([])).toBeNull()
})

test('Retry-After is understood as seconds and as a date', () => {
  const now = Date.parse('2025-01-31T23:59:00Z')
  expect(retryAfterSeconds('120', now)).toBe(120)
  expect(retryAfterSeconds('0', now)).toBe(0)
  expect(retryAfterSeconds('Sat, 01 Feb 2025 00:00:30 GMT', now)).toBe(90)
  expect(retryAfterSeconds('Sat, 01 Feb 2025 00:00:30 GMT', now + 500)).toBe(90)
})

test('a Retry-After in the past asks for nothing, and one in the far future for a day', () => {
  const now = Date.parse('2025-01-31T23:59:00Z')
  expect(retryAfterSeconds('Fri, 31 Jan 2025 00:00:00 GMT', now)).toBe(0)
  expect(retryAfterSeconds('Fri, 31 Jan 2031 00:00:00 GMT', now)).toBe(86_400)
  expect(retryAfterSeconds('9999999999', now)).toBe(86_400)
})

test.each([null, '', 'soon', '-1', '1.5', '1e3', '99999999999', 'Foo, 99 Bar 2025 00:00:00 GMT'])(
  'a Retry-After of %s is ignored',
  (header) => {
    expect(retryAfterSeconds(header, 0)).toBeNull()
  },
)
