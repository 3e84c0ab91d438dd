import { expect, test } from 'vitest'
import { readLicenceKey, trimUnseen, withoutSeparators } from './licence-key.ts'
import { writtenKeys } from './testing/written-keys.ts'

const key = '0A1BC-DEFGH-JKMNP-QRSTV-WXYZ9'

test.each(Object.entries(writtenKeys(key)))('a licence key is read: %s', (_, text) => {
  expect(readLicenceKey(text)).toBe(key)
})

test.each([
  '',
  'ABC',
  'U'.repeat(25),
  '0'.repeat(24),
  '0'.repeat(26),
  `${'0'.repeat(24)}ß`,
  // In capitals these are SS and I, which would be 25 characters of the alphabet.
  `${'0'.repeat(23)}ß`,
  `${'0'.repeat(24)}ı`,
  `${'0'.repeat(24)}\u212A`,
  key.replace('A', '\0A'),
  key.replaceAll('-', '_'),
  key.replaceAll('-', '.'),
  '0'.repeat(10_000),
])('a text that cannot be a licence key is refused (%#)', (text) => {
  expect(readLicenceKey(text)).toBeUndefined()
})

test('a licence key in capitals is read as one key, whatever its separators are', () => {
  expect(new Set(Object.values(writtenKeys(key)).map((text) => withoutSeparators(text).length))).toEqual(
    new Set([25]),
  )
})

test('blanks, line breaks and invisible characters are removed at both ends, not inside', () => {
  for (const unseen of [
    ' ',
    '\t',
    '\r\n',
    '\u00A0',
    '\u00AD',
    '\u200B',
    '\u200E',
    '\u2060',
    '\uFEFF',
    '\u{E0020}',
    '\u0007',
  ]) {
    expect(trimUnseen(`${unseen}OLD ${unseen}1${unseen}${unseen}`)).toBe(`OLD ${unseen}1`)
    expect(trimUnseen(unseen.repeat(3))).toBe('')
  }
  for (const kept of ['', '-1-', '–', '😀', 'a\u0301', '\0', '\uD800']) expect(trimUnseen(kept)).toBe(kept)
})

test('the time to read a text grows with its length only', () => {
  const long = `${'\u200B'.repeat(1_000_000)}x${' '.repeat(1_000_000)}y`
  const start = performance.now()
  expect(readLicenceKey(long)).toBeUndefined()
  expect(trimUnseen(long)).toHaveLength(1_000_002)
  expect(performance.now() - start).toBeLessThan(5_000)
})
