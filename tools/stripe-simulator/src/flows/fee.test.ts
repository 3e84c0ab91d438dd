import { expect, test } from 'vitest'
import { feeOf } from './invoice.ts'

test.each([
  [2980, 5, 149],
  [2980, 0.5, 15],
  [1, 50, 1],
  [1, 49, 0],
  [999, 1.25, 12],
  [9_007_199_254_740_991, 1, 90_071_992_547_410],
])('of %i a fee of %d %% is %i, rounded half up', (amount, percent, fee) => {
  expect(feeOf(amount, percent)).toBe(fee)
})

test('without a percentage there is no fee', () => {
  expect(feeOf(2980, null)).toBeNull()
  expect(feeOf(2980, 0)).toBeNull()
})
