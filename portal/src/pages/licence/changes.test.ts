import { expect, test } from 'vitest'
import { changedValues } from './changes.ts'

test.each([
  [
    'a text',
    { external_ref: { from: 'customer-1', to: 'customer-2' } },
    ['external ref: customer-1 → customer-2'],
  ],
  [
    'a time',
    { updates_until: { from: null, to: '2027-05-03T23:59:59.999Z' } },
    ['updates until: none → 3 May 2027, 23:59'],
  ],
  [
    'metadata, by entry',
    { metadata: { from: { crm_id: 'A', tier: '2' }, to: { crm_id: 'B', tier: '2', region: 'eu' } } },
    ['metadata: crm_id: A → B', 'metadata: region: none → eu'],
  ],
  [
    'restrictions, by limit',
    { restrictions: { from: { max_seats: 5, domains: ['a.example', 'b.example'] }, to: { max_seats: 6 } } },
    ['restrictions: domains: a.example, b.example → none', 'restrictions: max seats: 5 → 6'],
  ],
  [
    'all restrictions',
    { restrictions: { from: { max_seats: 5 }, to: null } },
    ['restrictions: max seats: 5 → none'],
  ],
  [
    'an override',
    {
      'overrides.export_pdf': {
        from: null,
        to: { value: 'true', ends_on: '2027-05-03T23:59:59.999Z', note: 'ticket 812' },
      },
    },
    ['override of export_pdf: none → true until 3 May 2027, 23:59 (ticket 812)'],
  ],
  [
    'the end of an override',
    { 'overrides.max_projects': { from: { value: '10', ends_on: null, note: null }, to: null } },
    ['override of max_projects: 10 → none'],
  ],
  [
    'a snapshot, by entitlement',
    {
      entitlements: {
        from: [
          { key: 'export_pdf', kind: 'feature', value: 'true' },
          { key: 'max_projects', kind: 'limit', value: '10' },
        ],
        to: [{ key: 'max_projects', kind: 'limit', value: '20' }],
      },
    },
    ['entitlements: export_pdf: true → none', 'entitlements: max_projects: 10 → 20'],
  ],
])('a change is shown in words: %s', (_what, changes, lines) => {
  expect(changedValues(changes).map(({ name, from, to }) => `${name}: ${from} → ${to}`)).toEqual(lines)
})
