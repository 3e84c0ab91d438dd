import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { Background, type DueTimes } from './background.ts'

beforeEach(() => vi.useFakeTimers({ now: 0 }))
afterEach(() => vi.useRealTimers())

/** The times at which it worked. */
async function wokenIn(passedMs: number, due: Partial<DueTimes>): Promise<number[]> {
  const woken: number[] = []
  const dueTimes = () => ({ time: Date.now(), list: null, token: null, tokenEnd: null, ...due })
  const background = new Background(dueTimes, async () => void woken.push(Date.now()))
  background.schedule()
  await vi.advanceTimersByTimeAsync(passedMs)
  return woken
}

describe('the timer of a client', () => {
  it('never becomes a busy loop, whatever is due', async () => {
    await expect(wokenIn(10_500, { list: -1, token: -1, tokenEnd: -1 })).resolves.toHaveLength(10)
  })

  it('wakes at least once a minute, because timers are late after a computer slept', async () => {
    await expect(wokenIn(5 * 60_000, { token: 1e9 })).resolves.toHaveLength(5)
  })

  it('wakes when the first work is due', async () => {
    await expect(wokenIn(20_000, { list: 30_000, token: 20_000, tokenEnd: 40_000 })).resolves.toEqual([
      20_000,
    ])
  })

  it('wakes when something is due, not a fraction of a millisecond before', async () => {
    await expect(wokenIn(2000, { list: 1234.5 })).resolves.toEqual([1235])
  })
})
