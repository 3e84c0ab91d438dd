import { create } from '@bufbuild/protobuf'
import { FieldMaskSchema, timestampFromDate } from '@bufbuild/protobuf/wkt'
import { LicenceFieldsSchema } from '@licensing/proto/licensing'
import { expect, test } from 'vitest'
import { messageOf, rowOf } from './fields.ts'
import type { RowOf } from './fields.ts'
import { givenFields } from './given-fields.ts'

type Row = RowOf<typeof LicenceFieldsSchema>

const fields = givenFields<Row, typeof LicenceFieldsSchema>(LicenceFieldsSchema, {
  external_ref: { isRequired: true, problem: (text) => (text === 'bad' ? 'is bad' : undefined) },
  restrictions: { problem: () => ({ pointer: '/domains/0', problem: 'is no host name' }) },
  expires_on: {},
  metadata: {},
  updates_until: { shown: ({ updates_until }) => updates_until?.toISOString() ?? null },
})

const end = new Date('2027-01-02T03:04:05.678Z')
const given = create(LicenceFieldsSchema, { externalRef: 'customer-1', expiresOn: timestampFromDate(end) })
const row = fields.ofNew(given)

test('a message becomes a row with dates and nulls, and the row becomes the same message', () => {
  expect(rowOf(LicenceFieldsSchema, given)).toEqual({
    ...fields.none,
    external_ref: 'customer-1',
    expires_on: end,
  })
  const wider = { ...row, other: 1 }
  expect(messageOf(LicenceFieldsSchema, wider)).toEqual(given)
})

test('a change sets the fields of the mask only, and removes those without a value', () => {
  const change = (paths: string[]) =>
    fields.ofChange(row, {
      fields: create(LicenceFieldsSchema, { updatesUntil: timestampFromDate(end) }),
      mask: create(FieldMaskSchema, { paths }),
    })
  expect(change(['expires_on', 'updates_until'])).toEqual({ expires_on: null, updates_until: end })
  expect(change([])).toEqual({})
  expect(() => change(['external_ref'])).toThrow(
    expect.objectContaining({ errors: [{ pointer: '/external_ref', message: 'is required' }] }),
  )
})

test('every invalid field is reported with a pointer to the part that is wrong', () => {
  const problems: string[] = []
  const wrong = create(LicenceFieldsSchema, { externalRef: 'bad', restrictions: {} })
  const columns = fields.ofNew(wrong, (pointer, problem) => problems.push(`${pointer} ${problem}`))
  expect(problems).toEqual(['/external_ref is bad', '/restrictions/domains/0 is no host name'])
  expect(columns).not.toHaveProperty('external_ref')
})

test('the differences for a history are the fields whose shown values differ', () => {
  expect(fields.differences(row, { ...row, expires_on: new Date(end) })).toEqual({})
  expect(fields.differences(row, { ...row, updates_until: end })).toEqual({
    updates_until: { from: null, to: end.toISOString() },
  })
})
