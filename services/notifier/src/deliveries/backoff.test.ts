import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { failingFrom } from '../endpoints/endpoint.ts'
import { createBackoff, maxAttempts, readSeconds, waitAfter } from './backoff.ts'

const noAnswer = { responseCode: null, retryAfterSeconds: null }
const middle = 0.5

test('the waits are as in the interface, and the twelfth failure is the last', () => {
  const waits = Array.from({ length: maxAttempts }, (_, i) =>
    waitAfter(createBackoff(), { failures: i + 1, ...noAnswer }, middle),
  )
  const seconds = [60, 300, 1800, 7200, 21600, 21600, 21600, 21600, 21600, 21600, 21600]
  expect(waits).toEqual([...seconds.map((wait) => wait * 1000), null])
})

test('an endpoint is shown as failing from the first failure that is followed by a wait of hours', () => {
  const waits = createBackoff()
  expect(waits.findIndex((seconds) => seconds > 3600) + 1).toBe(failingFrom)
  expect(failingFrom).toBeLessThan(maxAttempts)
})

test('the first wait is exact, and later ones vary by at most a tenth', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 11 }),
      fc.double({ min: 0, max: 1, noNaN: true }),
      (failures, random) => {
        const usual = waitAfter(createBackoff(), { failures, ...noAnswer }, middle)!
        const wait = waitAfter(createBackoff(), { failures, ...noAnswer }, random)!
        const max = failures === 1 ? 0 : 0.1 * usual
        expect(Math.abs(wait - usual)).toBeLessThanOrEqual(max + 1)
      },
    ),
  )
  expect(waitAfter(createBackoff(), { failures: 2, ...noAnswer }, 0)).toBe(270_000)
  expect(waitAfter(createBackoff(), { failures: 2, ...noAnswer }, 1)).toBe(330_000)
})

test.each([
  { responseCode: 429, retryAfterSeconds: 600, seconds: 600 },
  { responseCode: 503, retryAfterSeconds: 600, seconds: 600 },
  { responseCode: 503, retryAfterSeconds: 10, seconds: 60 },
  { responseCode: 503, retryAfterSeconds: null, seconds: 60 },
  { responseCode: 503, retryAfterSeconds: 86_400, seconds: 21_600 },
  { responseCode: 500, retryAfterSeconds: 600, seconds: 60 },
  { responseCode: null, retryAfterSeconds: 600, seconds: 60 },
])(
  'Retry-After lengthens a step on 429 and 503, to 6 hours at most: $responseCode, $retryAfterSeconds s',
  ({ seconds, ...answer }) => {
    expect(waitAfter(createBackoff(), { failures: 1, ...answer }, middle)).toBe(seconds * 1000)
  },
)

test('other waits can be configured, and the last one repeats', () => {
  const backoff = createBackoff(readSeconds('1, 0.5,2'))
  expect(backoff).toEqual([1, 0.5, 2, 2, 2, 2, 2, 2, 2, 2, 2])
  expect(createBackoff(Array.from({ length: 20 }, (_, i) => i))).toHaveLength(11)
})

test.each(['', 'a', '1,', '-1', '1;2', '1e3'])('waits that are not numbers are refused: %j', (list) => {
  expect(() => readSeconds(list)).toThrow('seconds separated by commas')
})
