import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { Background } from './background.ts'

beforeEach(() => vi.useFakeTimers({ now: 0 }))
afterEach(() => vi.useRealTimers())

describe('the timer of a client', () => {
  it('never becomes a busy loop, whatever is due', async () => {
    const work = vi.fn<() => Promise<void>>(async () => {})
    const background = new Background(() => ({ time: 0, list: -1, token: -1, tokenEnd: -1 }), work)
    background.schedule()
    await vi.advanceTimersByTimeAsync(10_500)
    expect(work).toHaveBeenCalledTimes(10)
  })

  it('wakes at least once a minute, because timers are late after a computer slept', async () => {
    const work = vi.fn<() => Promise<void>>(async () => {})
    const background = new Background(() => ({ time: 0, list: null, token: 1e9, tokenEnd: null }), work)
    background.schedule()
    await vi.advanceTimersByTimeAsync(5 * 60_000)
    expect(work).toHaveBeenCalledTimes(5)
  })

  it('wakes when the first work is due', async () => {
    const work = vi.fn<() => Promise<void>>(async () => {})
    const background = new Background(
      () => ({ time: 0, list: 30_000, token: 20_000, tokenEnd: 40_000 }),
      work,
    )
    background.schedule()
    await vi.advanceTimersByTimeAsync(19_999)
    expect(work).not.toHaveBeenCalled()
    await vi.advanceTimersByTimeAsync(1)
    expect(work).toHaveBeenCalledTimes(1)
  })

  it('wakes when something is due, not a fraction of a millisecond before', async () => {
    const woken: number[] = []
    const list = 1234.5
    const background = new Background(
      () => ({ time: Date.now(), list, token: null, tokenEnd: null }),
      async () => void woken.push(Date.now()),
    )
    background.schedule()
    await vi.advanceTimersByTimeAsync(2000)
    expect(woken).toEqual([1235])
  })
})
