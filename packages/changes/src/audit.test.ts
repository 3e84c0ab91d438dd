import { create } from '@bufbuild/protobuf'
import { timestampFromDate } from '@bufbuild/protobuf/wkt'
import { AccountSchema, ApiKeySchema, ApplicationSchema, PlanSchema } from '@licensing/proto/catalog'
import { CreateEndpointResponseSchema } from '@licensing/proto/notifier'
import { expect, test } from 'vitest'
import { changesOf, newSecrets } from './audit.ts'

const time = timestampFromDate(new Date('2026-11-28T00:00:00Z'))
const plan = { id: 'pln_1', applicationId: 'app_1', name: 'Pro', activeLicences: 3n, createdAt: time }

test('what is created has every field that the API shows, without its id and times', () => {
  const entitlements = [{ entitlementDefId: 'ent_1', value: '5' }]
  expect(changesOf(PlanSchema, undefined, { ...plan, entitlements, metadata: { tier: 'gold' } })).toEqual({
    name: { from: null, to: 'Pro' },
    code: { from: null, to: '' },
    status: { from: null, to: '' },
    active_licences: { from: null, to: 3 },
    entitlements: { from: null, to: [{ entitlement_def_id: 'ent_1', value: '5' }] },
    metadata: { from: null, to: { tier: 'gold' } },
  })
})

test('what is deleted has the same fields, to null', () => {
  const key = { id: 'key_1', name: 'one', scopes: ['read'], applicationId: 'app_1', lastFour: 'abcd' }
  expect(changesOf(ApiKeySchema, key, undefined)).toEqual({
    name: { from: 'one', to: null },
    scopes: { from: ['read'], to: null },
    app_id: { from: 'app_1', to: null },
    last_four: { from: 'abcd', to: null },
  })
})

test('of what stays only the fields that differ are there, and a field that is removed is null', () => {
  const before = { ...plan, trialDays: 14, metadata: { a: '1', b: '2' } }
  const after = { ...plan, name: 'Pro 2', metadata: { b: '2', a: '1' } }
  expect(changesOf(PlanSchema, before, after)).toEqual({
    name: { from: 'Pro', to: 'Pro 2' },
    trial_days: { from: 14, to: null },
  })
})

test('a field of a part has the name of the part before it', () => {
  const page = (freesPerDay: number) => ({ name: 'Studio', customerPage: { freesPerDay } })
  expect(changesOf(ApplicationSchema, page(3), page(9))).toEqual({
    'customer_page.frees_per_day': { from: 3, to: 9 },
  })
})

test('a time that changed is a change without fields; what the API does not show, or changes by itself, is none', () => {
  const key = { id: 'key_1', name: 'one' }
  expect(changesOf(ApiKeySchema, key, { ...key, revokedAt: time })).toEqual({})
  expect(changesOf(ApiKeySchema, key, { ...key, lastUsedAt: time })).toBeUndefined()
  expect(changesOf(AccountSchema, {}, { confirmedAlertEmail: 'a@example.com' })).toBeUndefined()
  expect(changesOf(PlanSchema, plan, create(PlanSchema, plan))).toBeUndefined()
})

test('a secret has its field and no value', () => {
  const secret = { secret: { from: null, to: null } }
  expect(newSecrets(CreateEndpointResponseSchema)).toEqual(secret)
  expect(changesOf(CreateEndpointResponseSchema, { secret: 'whsec_a' }, { secret: 'whsec_b' })).toEqual(
    secret,
  )
})
