import { expect, test } from 'vitest'
import { addMonths } from './calendar.ts'

test.each([
  ['2026-11-21T10:20:30.456Z', 1, '2026-12-21T10:20:30.456Z'],
  ['2027-01-31T00:00:00.000Z', 1, '2027-02-28T00:00:00.000Z'],
  ['2028-01-31T00:00:00.000Z', 1, '2028-02-29T00:00:00.000Z'],
  ['2028-02-29T12:00:00.000Z', 12, '2029-02-28T12:00:00.000Z'],
  ['2026-10-31T23:59:59.000Z', 13, '2027-11-30T23:59:59.000Z'],
  ['2026-12-15T00:00:00.000Z', 1200, '2126-12-15T00:00:00.000Z'],
])('%s and %d months is %s', (from, months, to) => {
  expect(addMonths(new Date(from), months).toISOString()).toBe(to)
})
