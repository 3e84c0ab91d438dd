import { create } from '@bufbuild/protobuf'
import type { ServiceError } from '@licensing/grpc/errors'
import { OverrideInputSchema } from '@licensing/proto/catalog'
import { expect, test } from 'vitest'
import { Violations } from '../refusals.ts'
import { matchOverrides, sameOverrides } from './plan.ts'
import type { DefinedKey } from './plan.ts'

const definitions: DefinedKey[] = [
  { id: 'ent_1', key: 'sso', kind: 'feature' },
  { id: 'ent_2', key: 'seats', kind: 'limit' },
]

function match(...inputs: [key: string, value: string][]) {
  const violations = new Violations()
  const list = inputs.map(([key, value]) => create(OverrideInputSchema, { key, value }))
  const matched = matchOverrides(list, definitions, violations)
  violations.throwIfAny()
  return matched
}

function pointersOf(...inputs: [key: string, value: string][]): string[] {
  try {
    match(...inputs)
    return []
  } catch (error) {
    return (error as ServiceError).errors.map(({ pointer }) => pointer)
  }
}

test('overrides are matched with the definitions of their keys, in the order of the request', () => {
  expect(match(['seats', '5'], ['sso', 'true'])).toEqual([
    { definitionId: 'ent_2', value: '5' },
    { definitionId: 'ent_1', value: 'true' },
  ])
  expect(match()).toEqual([])
})

test('each invalid override is reported with its index', () => {
  expect(pointersOf(['sso', 'true'], ['nope', '1'])).toEqual(['/entitlements/1/key'])
  expect(pointersOf(['sso', '1'])).toEqual(['/entitlements/0/value'])
  expect(pointersOf(['seats', 'true'], ['sso', '0'])).toEqual([
    '/entitlements/0/value',
    '/entitlements/1/value',
  ])
  expect(pointersOf(['sso', 'true'], ['seats', '1'], ['sso', 'true'])).toEqual(['/entitlements/2/key'])
  expect(pointersOf(['__proto__', '1'], ['', ''])).toEqual(['/entitlements/0/key', '/entitlements/1/key'])
})

test('the order of overrides does not matter', () => {
  const held: [string, string][] = [
    ['ent_1', 'true'],
    ['ent_2', '5'],
  ]
  expect(sameOverrides(held, match(['seats', '5'], ['sso', 'true']))).toBe(true)
  expect(sameOverrides(held, match(['seats', '6'], ['sso', 'true']))).toBe(false)
  expect(sameOverrides(held, match(['seats', '5']))).toBe(false)
  expect(sameOverrides([], match(['seats', '5']))).toBe(false)
})
