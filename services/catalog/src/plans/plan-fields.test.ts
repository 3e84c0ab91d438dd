import { expect, test } from 'vitest'
import { planFields } from './plan-fields.ts'

test('a plan code has 1 to 64 letters, digits and _.-, the first a letter or digit', () => {
  const refused = (code: string) => {
    const pointers: string[] = []
    const fields = { $typeName: 'catalog.v1.PlanFields', name: 'Pro', code } as const
    planFields.ofNew(fields, (pointer) => void pointers.push(pointer))
    return pointers.includes('/code')
  }
  expect(['a', 'Pro-2.1_x', '9', 'a'.repeat(64)].filter(refused)).toEqual([])
  const wrong = ['', '-a', '.a', '_a', 'a b', 'a/b', 'ä', 'a\n', 'a'.repeat(65)]
  expect(wrong.filter(refused)).toEqual(wrong)
})
