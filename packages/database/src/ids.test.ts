import { expect, test } from 'vitest'
import { isId, newId } from './ids.ts'

test('ids of one process grow, so that newest first is by id', () => {
  const ids = Array.from({ length: 10_000 }, () => newId('lic'))
  expect(ids).toEqual(ids.toSorted())
  expect(new Set(ids).size).toBe(ids.length)
})

test('an id is known by its prefix and form', () => {
  expect(isId('lic', newId('lic'))).toBe(true)
  expect(isId('pln', newId('lic'))).toBe(false)
  expect(isId('lic', 'lic_')).toBe(false)
  expect(isId('lic', `lic_${'z'.repeat(26)}`)).toBe(false)
  expect(isId('lic', `${newId('lic')}0`)).toBe(false)
  expect(isId('lic', newId('lic').toUpperCase())).toBe(false)
})
