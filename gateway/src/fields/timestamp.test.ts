import { expect, test } from 'vitest'
import { isoText, parseTimestamp, toProto } from './timestamp.ts'

test.each([
  ['2027-01-31T00:00:00Z', '2027-01-31T00:00:00.000Z'],
  ['2027-01-31T00:00:00.1Z', '2027-01-31T00:00:00.100Z'],
  ['2027-01-31T00:00:00.123456789Z', '2027-01-31T00:00:00.123Z'],
  ['2027-01-31T01:30:00+01:30', '2027-01-31T00:00:00.000Z'],
  ['2026-12-31T23:00:00-02:00', '2027-01-01T01:00:00.000Z'],
  ['2028-02-29T12:00:00Z', '2028-02-29T12:00:00.000Z'],
  ['0001-01-01T00:00:00Z', '0001-01-01T00:00:00.000Z'],
  ['9999-12-31T23:59:59.999Z', '9999-12-31T23:59:59.999Z'],
])('%s is kept as %s', (text, kept) => {
  const ms = parseTimestamp(text)
  expect(new Date(ms!).toISOString()).toBe(kept)
  const { seconds, nanos } = toProto(ms!)
  expect(isoText({ $typeName: 'google.protobuf.Timestamp', seconds, nanos })).toBe(kept)
})

test.each([
  '2027-02-29T00:00:00Z',
  '2027-06-31T00:00:00Z',
  '2027-13-01T00:00:00Z',
  '2027-00-01T00:00:00Z',
  '2027-01-01T24:00:00Z',
  '2027-01-01T00:60:00Z',
  '2027-01-01T00:00:60Z',
  '2027-01-01T00:00:00',
  '2027-01-01 00:00:00Z',
  '2027-01-01',
  '2027-01-01T00:00:00+25:00',
  '2027-01-01T00:00:00.Z',
  '0001-01-01T00:00:00+01:00',
  '9999-12-31T23:59:59-01:00',
  '+12027-01-01T00:00:00Z',
  '',
])('%s is no timestamp', (text) => {
  expect(parseTimestamp(text)).toBeUndefined()
})
