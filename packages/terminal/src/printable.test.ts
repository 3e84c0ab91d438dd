import { expect, test } from 'vitest'
import { printable, printableLines } from './printable.ts'

const range = (from: number, to: number) =>
  Array.from({ length: to - from + 1 }, (_, i) => String.fromCharCode(from + i))

test.each([
  ['C0', range(0x00, 0x1f)],
  ['DEL and C1', range(0x7f, 0x9f)],
  ['bidirectional marks', ['\u061c', '\u200e', '\u200f']],
  ['bidirectional embeddings, overrides and isolates', [...range(0x202a, 0x202e), ...range(0x2066, 0x2069)]],
  ['line and paragraph separators', ['\u2028', '\u2029']],
])('%s are written as escapes, which JSON reads back', (_name, characters) => {
  for (const character of characters) {
    const text = `a${character}b`
    expect(printable(text)).toMatch(/^a\\u[0-9a-f]{4}b$/)
    expect(JSON.parse(printable(`"${text}"`))).toBe(text)
    expect(JSON.parse(printable(JSON.stringify({ text })))).toEqual({ text })
  }
})

test('letters of every script, symbols and spaces stay', () => {
  const text = 'Müller – 東京 עברית العربية 👩‍💻 \u00a0 “x” \\u001b'
  expect(printable(text)).toBe(text)
})

test('line breaks in a text of several lines stay', () => {
  expect(printableLines('one\ntwo\u001b[2J\r')).toBe('one\ntwo\\u001b[2J\\u000d')
})
