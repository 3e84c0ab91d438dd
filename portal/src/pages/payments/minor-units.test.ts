import { expect, test } from 'vitest'
import { minorOf } from './minor-units.ts'

test.each([
  ['49', 2, 4900],
  ['49.5', 2, 4950],
  ['49.50', 2, 4950],
  ['49,50', 2, 4950],
  ['0.29', 2, 29],
  ['1,250', 2, 125_000],
  ['1 250.00', 2, 125_000],
  ['12,345,678.90', 2, 1_234_567_890],
  ['0', 2, 0],
  ['500', 0, 500],
  ['1.234', 3, 1234],
])('%j with %i digits is %i minor units', (text, digits, minor) => {
  expect(minorOf(text, digits)).toBe(minor)
})

test.each([
  ['49.505', 2],
  ['500.5', 0],
  ['-1', 2],
  ['', 2],
  ['€49', 2],
  ['4.9.5', 2],
  ['99999999999999999', 2],
])('%j with %i digits is refused, and not rounded', (text, digits) => {
  expect(minorOf(text, digits)).toBeUndefined()
})
