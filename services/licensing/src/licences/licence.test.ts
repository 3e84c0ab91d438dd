import { expect, test } from 'vitest'
import { allowedVerbs, licenceStatuses, transitions } from './licence.ts'
import type { LicenceStatus, Transition, VendorVerb } from './licence.ts'

// Interface 3.1 and decisions 4, written out a second time by hand: '-' is a conflict, '=' changes nothing.
const verbsByState: Record<LicenceStatus, Record<VendorVerb, LicenceStatus | '-' | '='>> = {
  active: { suspend: 'suspended', reactivate: '-', revoke: 'revoked', retire: 'retired' },
  suspended: { suspend: '-', reactivate: 'active', revoke: 'revoked', retire: 'retired' },
  revoked: { suspend: '-', reactivate: '-', revoke: '=', retire: 'retired' },
  expired: { suspend: '-', reactivate: '-', revoke: 'revoked', retire: 'retired' },
  retired: { suspend: '-', reactivate: '-', revoke: '-', retire: '=' },
  downgraded: { suspend: '-', reactivate: '-', revoke: 'revoked', retire: 'retired' },
}

for (const status of licenceStatuses) {
  for (const [verb, expected] of Object.entries(verbsByState[status])) {
    test(`${verb} of ${status} is ${expected} in the table`, () => {
      const transition: Transition = transitions[verb as VendorVerb]
      const outcome = transition.from.includes(status)
        ? transition.to
        : (transition.unchangedIn?.includes(status) ?? false)
          ? '='
          : '-'
      expect(outcome).toBe(expected)
    })
  }
}

test('the allowed verbs are those that change something, reactivate only on an active plan', () => {
  expect(allowedVerbs('active', true)).toEqual(['suspend', 'revoke', 'retire'])
  expect(allowedVerbs('suspended', true)).toEqual(['reactivate', 'revoke', 'retire'])
  expect(allowedVerbs('suspended', false)).toEqual(['revoke', 'retire'])
  expect(allowedVerbs('revoked', true)).toEqual(['retire'])
  expect(allowedVerbs('expired', true)).toEqual(['revoke', 'retire'])
  expect(allowedVerbs('downgraded', true)).toEqual(['revoke', 'retire'])
  expect(allowedVerbs('retired', true)).toEqual([])
})

test('nothing leads out of retired, and only retire out of revoked', () => {
  const leaving = (status: LicenceStatus) =>
    Object.entries(transitions)
      .filter(([, transition]) => (transition.from as readonly LicenceStatus[]).includes(status))
      .map(([name]) => name)
  expect(leaving('retired')).toEqual([])
  expect(leaving('revoked')).toEqual(['retire'])
})
