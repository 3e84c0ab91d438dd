import { expect, test } from 'vitest'
import { feeOf } from '../flows/collect-invoice.ts'
import { formatMoney } from './money.ts'

test.each([
  [4900, 'usd', '49.00 USD'],
  [2980, 'jpy', '2980 JPY'],
  [1230, 'kwd', '1.230 KWD'],
  [500, 'isk', '5.00 ISK'],
])('%i %s is written %s', (amount, currency, text) => {
  expect(formatMoney(amount, currency)).toBe(text)
})

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

test('no percentage is no fee', () => {
  expect(feeOf(2980, null)).toBeNull()
  expect(feeOf(2980, 0)).toBeNull()
})
