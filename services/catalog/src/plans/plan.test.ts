import { expect, test } from 'vitest'
import { Violations } from '../refusals.ts'
import { allowedVerbs, checkCode, wrongStatus } from './plan.ts'

test('a verb that the status does not allow is refused with the status and the allowed verbs', () => {
  expect(allowedVerbs('active')).toEqual(['archive'])
  expect(allowedVerbs('retired')).toEqual(['restore'])
  expect(wrongStatus('archive', { id: 'pln_1', status: 'retired' })).toMatchObject({
    code: 'conflict',
    message: 'plan pln_1 is retired; only an active plan can be archived; restore it first',
    members: { current: 'retired', allowed: ['restore'] },
  })
  expect(wrongStatus('restore', { id: 'pln_1', status: 'active' })).toMatchObject({
    code: 'conflict',
    message: 'plan pln_1 is active; only a retired plan can be restored; archive it first',
    members: { current: 'active', allowed: ['archive'] },
  })
})

test('a plan code has 1 to 64 letters, digits and _.-, the first a letter or digit', () => {
  const refused = (code: string) => {
    const violations = new Violations()
    checkCode(violations, code)
    try {
      violations.throwIfAny()
      return false
    } catch {
      return true
    }
  }
  expect(['a', 'Pro-2.1_x', '9', 'a'.repeat(64)].filter(refused)).toEqual([])
  const wrong = ['', '-a', '.a', '_a', 'a b', 'a/b', 'ä', 'a\n', 'a'.repeat(65)]
  expect(wrong.filter(refused)).toEqual(wrong)
})
