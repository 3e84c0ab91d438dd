import { closedSets } from '@licensing/proto/closed-sets'
import { expect, test } from 'vitest'
import { effectiveEntitlements, valuesOf } from './effective.ts'
import type { OverrideValue } from './effective.ts'
import type { SnapshotEntitlement } from './snapshot.ts'

const captured: SnapshotEntitlement[] = [
  { key: 'export', kind: 'feature', value: 'true', default: 'false' },
  { key: 'seats', kind: 'limit', value: '5', default: '1' },
]
const overrides: OverrideValue[] = [
  { key: 'projects', kind: 'limit', value: '9' },
  { key: 'seats', kind: 'limit', value: '50' },
]

// Written as `value of from`.
const expected = {
  values: { export: 'true of snapshot', projects: '9 of override', seats: '50 of override' },
  defaults: { export: 'false of default', seats: '1 of default' },
}

test.each(closedSets.licenceStatus)(
  'an override replaces the snapshot’s value if the licence is %s',
  (status) => {
    const effective = effectiveEntitlements(status, captured, overrides)
    const texts = effective.map(({ key, value, from }) => [key, `${value} of ${from}`])
    expect(Object.fromEntries(texts)).toEqual(expected[status === 'downgraded' ? 'defaults' : 'values'])
    expect(effective.map(({ key }) => key)).toEqual(effective.map(({ key }) => key).toSorted())
    expect(effective.find(({ key }) => key === 'seats')!.kind).toBe('limit')
  },
)

test('without overrides a token has the snapshot’s values', () => {
  expect(valuesOf(effectiveEntitlements('active', captured, []))).toEqual({ export: 'true', seats: '5' })
})
