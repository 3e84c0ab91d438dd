import { expect, test } from 'vitest'
import { parseHttpDate, retryAfterMs } from './retry-after.ts'

const now = Date.parse('2026-11-28T10:00:00Z')

test.each([
  ['Sat, 28 Nov 2026 10:02:00 GMT', 120_000],
  ['Saturday, 28-Nov-26 10:02:00 GMT', 120_000],
  ['Sat Nov 28 10:02:00 2026', 120_000],
  ['Tue Dec  1 10:00:00 2026', 3 * 86_400_000],
  ['Tuesday, 01-Dec-26 10:00:00 GMT', 3 * 86_400_000],
  ['120', 120_000],
  ['0', 0],
  // In the past.
  ['Sun, 06 Nov 1994 08:49:37 GMT', 0],
  ['Sunday, 06-Nov-94 08:49:37 GMT', 0],
  ['Sun Nov  6 08:49:37 1994', 0],
  ...[
    '',
    '-1',
    '1.5',
    '1e3',
    '99999999999',
    'soon',
    '2026-11-28T10:02:00Z',
    'Sat, 28 Nov 2026 10:02:00',
    'Sat, 28 Nov 2026 10:02:00 CET',
    'Sat, 28 Nov 2026 24:02:00 GMT',
    'Mon, 31 Nov 2026 10:02:00 GMT',
    'Sat, 28 Foo 2026 10:02:00 GMT',
    'Sat, 8 Nov 2026 10:02:00 GMT',
    'Sat Nov 28 10:02:00 26',
  ].map((header) => [header, null] as const),
] as const)('a Retry-After of %j asks to wait %j ms', (header, ms) => {
  expect(retryAfterMs(header, now)).toBe(ms)
})

test('a date is compared with the time of the server, if the answer has it', () => {
  const [header, sentAt] = ['Sat, 01 Feb 2020 10:10:00 GMT', 'Saturday, 01-Feb-20 10:00:00 GMT']
  expect(retryAfterMs(header, now, sentAt)).toBe(600_000)
  expect(retryAfterMs(header, now, 'nonsense')).toBe(0)
  expect(retryAfterMs('7', now, sentAt)).toBe(7_000)
})

test('a year with two digits is at most 50 years ahead', () => {
  const yearOf = (digits: string) =>
    new Date(parseHttpDate(`Sunday, 01-Feb-${digits} 00:00:00 GMT`, now)!).getUTCFullYear()
  expect(['26', '76', '77', '99', '00'].map(yearOf)).toEqual([2026, 2076, 1977, 1999, 2000])
})

test('a date does not depend on the time zone of the machine', () => {
  expect(parseHttpDate('Sun Nov  6 08:49:37 1994', now)).toBe(Date.UTC(1994, 10, 6, 8, 49, 37))
})
