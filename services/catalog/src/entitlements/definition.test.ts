import { problemOfValue } from '@licensing/proto/entitlement-kinds'
import { assert, integer, property } from 'fast-check'
import { expect, test } from 'vitest'
import { problemOfKey } from './definition.ts'

test('a limit accepts every integer of at most 15 digits in its canonical form', () => {
  assert(
    property(integer({ min: -999_999_999_999_999, max: 999_999_999_999_999 }), (value) => {
      expect(problemOfValue('limit', String(value))).toBeUndefined()
    }),
  )
})

test.each([
  '',
  ' 1',
  '1 ',
  '+1',
  '-0',
  '00',
  '01',
  '-01',
  '1.0',
  '1e3',
  '0x1',
  '١',
  '1\n',
  '1'.repeat(16),
  'true',
])('a limit cannot be %j', (value) => expect(problemOfValue('limit', value)).toMatch('must be an integer'))

test('a feature accepts only true and false', () => {
  expect(problemOfValue('feature', 'true')).toBeUndefined()
  expect(problemOfValue('feature', 'false')).toBeUndefined()
  for (const value of ['', 'True', 'yes', '1', 'true ', 'true\n', 'truefalse']) {
    expect(problemOfValue('feature', value)).toMatch('must be "true" or "false"')
  }
})

test('an entitlement key has 1 to 64 lower-case letters, digits and underscores, the first a letter', () => {
  for (const key of ['a', 'max_seats', 'a1_', 'a'.repeat(64)]) expect(problemOfKey(key)).toBeUndefined()
  for (const key of ['', 'A', '1a', '_a', 'a-b', 'a b', 'ä', 'a\n', 'a'.repeat(65)]) {
    expect(problemOfKey(key)).toMatch('1 to 64 characters')
  }
})
