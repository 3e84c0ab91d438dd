import { expect, test } from 'vitest'
import { idOf, isId, newId, numberOf } from './ids.ts'

test('ids of one process grow, so that ordering by id is ordering by age', () => {
  const ids = Array.from({ length: 10_000 }, () => newId('lic'))
  expect(ids).toEqual(ids.toSorted())
  expect(new Set(ids).size).toBe(ids.length)
})

test('an id is recognized by its prefix and form', () => {
  expect(isId('lic', newId('lic'))).toBe(true)
  expect(isId('pln', newId('lic'))).toBe(false)
  expect(isId('lic', 'lic_')).toBe(false)
  expect(isId('lic', `lic_${'z'.repeat(26)}`)).toBe(false)
  expect(isId('lic', `${newId('lic')}0`)).toBe(false)
  expect(isId('lic', newId('lic').toUpperCase())).toBe(false)
})

test('an id of a time and a number contains the number, and sorts by time, then by number', () => {
  const at = (ms: number) => new Date(ms)
  const numbers = [0n, 1n, 255n, 2n ** 31n, 2n ** 62n - 1n]
  const ids = [0, 1, 1_700_000_000_000].flatMap((ms) => numbers.map((number) => idOf('alrt', at(ms), number)))
  expect(ids).toEqual(ids.toSorted())
  expect(new Set(ids).size).toBe(ids.length)
  expect(ids.every((id) => isId('alrt', id))).toBe(true)
  expect(ids.slice(0, numbers.length).map(numberOf)).toEqual(numbers)
})

test('the least id of a time sorts before all later ids and after all earlier ids', () => {
  const before = newId('dlv')
  const now = Date.now()
  expect(idOf('dlv', new Date(now + 1), 0n) > before).toBe(true)
  expect(idOf('dlv', new Date(now), 0n) <= newId('dlv')).toBe(true)
})
