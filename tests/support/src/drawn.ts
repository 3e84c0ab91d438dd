import { test } from 'vitest'

/** Set by `npm run test:full`, which runs the test files that import this. */
export const isFull = process.env['TEST_FULL'] === '1'
const seed = Number(process.env['TEST_SEED'] ?? Date.now() % 100_000)

/** For a test's title: whether it runs every case, or the seed of the drawn cases. */
export const drawing = isFull ? 'every case' : `some cases, TEST_SEED=${seed}`

/**
 * Draws cases of a long test by TEST_SEED, spread evenly over the list. With TEST_FULL=1 it returns all cases.
 *
 * @example test.each(drawn(orders, 20))(`every order ends the same (${drawing})`, …)
 */
export function drawn<Case>(cases: readonly Case[], count: number): Case[] {
  if (isFull || count >= cases.length) return [...cases]
  const step = Math.floor(cases.length / count)
  return Array.from({ length: count }, (_, at) => cases[(seed + at * step) % cases.length] as Case)
}

/** A test of faults, races or sizes that takes long: only `npm run test:full` runs it. */
export const fullTest = isFull ? test : test.skip
