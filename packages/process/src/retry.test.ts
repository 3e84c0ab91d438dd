import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { retry } from './retry.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

/** Work that fails so many times, and the times of its tries in milliseconds from now. */
function givenWork(failures: number) {
  const [startedAt, times] = [Date.now(), [] as number[]]
  const work = async () => {
    times.push(Date.now() - startedAt)
    if (times.length <= failures) throw new Error(`failure ${times.length}`)
    return 'done'
  }
  return { work, times }
}

test('the pause doubles up to the longest, and the result is returned', async () => {
  const { work, times } = givenWork(5)
  const result = retry(work, { firstMs: 10, maxMs: 50, isRetried: () => true })
  await vi.runAllTimersAsync()
  expect(await result).toBe('done')
  expect(times).toEqual([0, 10, 30, 70, 120, 170])
})

test('jitter shortens each pause by a random part of it', async () => {
  vi.spyOn(Math, 'random').mockReturnValueOnce(0).mockReturnValueOnce(1)
  const { work, times } = givenWork(2)
  const result = retry(work, { firstMs: 100, maxMs: 100, jitter: 0.5, isRetried: () => true })
  await vi.runAllTimersAsync()
  await result
  expect(times).toEqual([0, 100, 150])
})

test('an error that is not retried is thrown, and the number of failures can decide that', async () => {
  const { work, times } = givenWork(5)
  const isRetried = (_error: unknown, failures: number) => failures < 3 && 'at once'
  await expect(retry(work, { firstMs: 10, maxMs: 10, isRetried })).rejects.toThrow('failure 3')
  expect(times).toEqual([0, 0, 0])
})

test('a signal ends the pause, and the work is not tried again', async () => {
  const { work, times } = givenWork(5)
  const stopping = new AbortController()
  const result = retry(work, { firstMs: 1_000, maxMs: 1_000, isRetried: () => true, signal: stopping.signal })
  setTimeout(() => stopping.abort(new Error('stopped')), 10)
  await Promise.all([expect(result).rejects.toThrow('stopped'), vi.advanceTimersByTimeAsync(10)])
  expect(times).toEqual([0])
})
