import { expect, test } from 'vitest'
import { Violations } from '../refusals.ts'
import { checkCode } from './plan.ts'

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
