import { expect, test } from 'vitest'
import type { SnapshotEntitlement } from '../plans/snapshot.ts'
import { planDrift } from './get-licence.ts'

const of = (values: Record<string, string>, usual = '0') =>
  Object.entries(values).map(([key, value]): SnapshotEntitlement => ({
    key,
    kind: 'limit',
    value,
    default: usual,
  }))

test('the drift lists each key whose value differs, sorted; a missing value is absent', () => {
  expect(
    planDrift(of({ seats: '5', exports: '1', same: '2' }), of({ seats: '9', api_calls: '7', same: '2' })),
  ).toEqual([
    { key: 'api_calls', kind: 'limit', planValue: '7' },
    { key: 'exports', kind: 'limit', licenceValue: '1' },
    { key: 'seats', kind: 'limit', licenceValue: '5', planValue: '9' },
  ])
})

test('equal values are no drift, even with other defaults or another order', () => {
  expect(planDrift(of({ a: '1', b: '2' }), of({ b: '2', a: '1' }, '1'))).toEqual([])
})
