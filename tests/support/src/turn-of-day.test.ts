import { afterEach, expect, test, vi } from 'vitest'
import { awaitTurn } from './turn-of-day.ts'

afterEach(() => void vi.useRealTimers())

test.each([
  ['hour', '2028-02-29T22:59:15Z', '2028-02-29T23:00:00.000Z'],
  ['hour', '2028-02-29T22:15:00Z', '2028-02-29T22:15:00.000Z'],
  ['day', '2028-02-29T22:59:15Z', '2028-02-29T22:59:15.000Z'],
  ['day', '2028-02-29T23:59:59.999Z', '2028-03-01T00:00:00.000Z'],
] as const)('in the last minute of the %s it waits for the next: %s', async (step, now, until) => {
  vi.useFakeTimers({ now: Date.parse(now) })
  const turned = awaitTurn(step).then(() => new Date().toISOString())
  await vi.advanceTimersByTimeAsync(60_000)
  expect(await turned).toBe(until)
})
