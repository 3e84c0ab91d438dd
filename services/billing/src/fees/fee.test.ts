import { assert, bigInt, integer, property } from 'fast-check'
import { describe, expect, test } from 'vitest'
import { feeOf, periodOf } from './fee.ts'

describe('a fee', () => {
  test.each([
    [4900n, 500, 0n, 245n],
    [2980n, 500, 0n, 149n],
    [1n, 100, 0n, 0n],
    [49n, 100, 0n, 0n],
    [50n, 100, 0n, 1n],
    [150n, 100, 0n, 2n],
    [4900n, 100, 30n, 79n],
    [0n, 100, 30n, 0n],
    [9_007_199_254_740_991n, 10_000, 0n, 9_007_199_254_740_991n],
  ])('of %d at %d basis points and %d is %d', (amount, bps, fixedMinor, fee) => {
    expect(feeOf(amount, { bps, fixedMinor })).toBe(fee)
  })

  test('is never more than half a minor unit off', () => {
    assert(
      property(bigInt({ min: 1n, max: 10n ** 12n }), integer({ min: 0, max: 10_000 }), (amount, bps) => {
        const twice = feeOf(amount, { bps, fixedMinor: 0n }) * 20_000n
        const exact = 2n * amount * BigInt(bps)
        expect(twice - exact).toBeGreaterThan(-10_000n)
        expect(twice - exact).toBeLessThanOrEqual(10_000n)
      }),
    )
  })

  test('falls in the UTC month of its time', () => {
    expect(periodOf(new Date('2026-11-30T23:59:59.999Z'))).toBe('2026-11')
    expect(periodOf(new Date('2026-12-01T00:00:00.000Z'))).toBe('2026-12')
  })
})
