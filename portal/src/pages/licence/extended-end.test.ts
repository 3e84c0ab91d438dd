import { expect, test } from 'vitest'
import { extendedEnd } from './extended-end.ts'

const now = new Date('2026-11-26T12:00:00.000Z')

test.each([
  ['2027-05-03T23:59:59.999Z', 1, '2027-06-03T23:59:59.999Z'],
  ['2027-05-03T23:59:59.999Z', 12, '2028-05-03T23:59:59.999Z'],
  ['2026-12-31T10:00:00.000Z', 1, '2027-01-31T10:00:00.000Z'],
  ['2027-01-31T10:00:00.000Z', 1, '2027-02-28T10:00:00.000Z'],
  ['2028-02-29T10:00:00.000Z', 12, '2029-02-28T10:00:00.000Z'],
  // If the licence has already ended, the months count from now.
  ['2020-01-31T10:00:00.000Z', 1, '2026-12-26T12:00:00.000Z'],
])('%s and %i months more is %s', (end, months, extended) => {
  expect(extendedEnd(end, months, now)).toBe(extended)
})
