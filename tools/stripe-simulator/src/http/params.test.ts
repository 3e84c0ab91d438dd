import { expect, test } from 'vitest'
import { parseForm } from './params.ts'

test('no parameter name changes a prototype', () => {
  const tree = parseForm('__proto__[polluted]=yes&constructor[prototype][polluted]=yes')
  expect(Object.keys(tree)).toEqual(['__proto__', 'constructor'])
  expect(({} as Record<string, unknown>)['polluted']).toBeUndefined()
})
