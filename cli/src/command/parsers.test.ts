import { expect, test } from 'vitest'
import { endTime, endTimeOrNone, sinceTime, untilTime } from './parsers.ts'

test('a date without a time is the whole day, UTC: an end is its end, and a period includes it', () => {
  expect(endTime('2028-02-29')).toBe('2028-02-29T23:59:59.999Z')
  expect(endTimeOrNone('2028-02-29')).toBe('2028-02-29T23:59:59.999Z')
  expect(endTimeOrNone('none')).toBe('none')
  expect(sinceTime('2028-02-29')).toBe('2028-02-29T00:00:00.000Z')
  expect(untilTime('2028-02-29')).toBe('2028-03-01T00:00:00.000Z')
})

test.each([endTime, sinceTime, untilTime])(
  'a time keeps its time zone, and any other text is refused',
  (read) => {
    expect(read('2028-02-29T01:30+02:00')).toBe('2028-02-28T23:30:00.000Z')
    expect(read('2028-02-29T12:00:00.5Z')).toBe('2028-02-29T12:00:00.500Z')
    for (const text of [
      '2027-02-29',
      '2027-02-29T00:00:00Z',
      '2027-13-01',
      '31.01.2027',
      '2027-01-31T12:00',
      'today',
      '',
    ]) {
      expect(() => read(text), text).toThrow('It must be a time like 2027-01-31')
    }
  },
)
