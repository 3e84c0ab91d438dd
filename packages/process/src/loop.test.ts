import { AsyncLocalStorage } from 'node:async_hooks'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { Loop, startLoop } from './loop.ts'
import type { LoopOptions } from './loop.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

const outage = new Error('refused')
const defect = new Error('defect')

/** A loop that counts its rounds. They return or throw `answers` one by one; later rounds return nothing. */
function counted(
  answers: (Error | number | 'idle' | 'asleep' | 'done' | undefined)[],
  options: Partial<LoopOptions> = {},
) {
  const reported: unknown[] = []
  let rounds = 0
  const loop = new Loop({
    work: async () => {
      const answer = answers[rounds]
      rounds += 1
      if (answer instanceof Error) throw answer
      return answer
    },
    everyMs: 100,
    failed: (error) => reported.push(error),
    isOutage: (error) => error === outage,
    ...options,
  })
  return { loop, reported, rounds: () => rounds }
}

/** Starts a loop that never fails. */
const looping = (everyMs: number, work: LoopOptions['work']) =>
  startLoop({ work, everyMs, failed: () => {}, isOutage: () => false })

const pass = (ms: number) => vi.advanceTimersByTimeAsync(ms)

test('a round runs at the start and then at every interval, until it is stopped', async () => {
  const { loop, rounds } = counted([])
  await pass(500)
  loop.wake()
  expect(rounds()).toBe(0)
  loop.start()
  expect(rounds()).toBe(1)
  await pass(250)
  expect(rounds()).toBe(3)
  await loop.stop()
  loop.wake()
  loop.wakeIn(1)
  loop.start()
  await pass(500)
  expect(rounds()).toBe(3)
})

test('a round may return that the next round follows at once, sooner, or never', async () => {
  const { loop, rounds } = counted([0, 0, 5, 'done'])
  loop.start()
  await pass(0)
  expect(rounds()).toBe(3)
  await pass(4)
  expect(rounds()).toBe(3)
  await pass(1)
  expect(rounds()).toBe(4)
  loop.wake()
  await pass(500)
  expect(rounds()).toBe(4)
})

test('rounds do not overlap; any number of wakes during a round cause one more round right after it', async () => {
  const ends: (() => void)[] = []
  let atWork = 0
  let max = 0
  const loop = looping(100, async () => {
    max = Math.max(max, (atWork += 1))
    await new Promise<void>((resolve) => ends.push(resolve))
    atWork -= 1
  })
  for (let i = 0; i < 3; i += 1) loop.wake()
  await pass(1_000)
  expect(ends).toHaveLength(1)
  ends[0]!()
  await pass(0)
  expect(ends).toHaveLength(2)
  ends[1]!()
  await pass(99)
  expect(ends).toHaveLength(2)
  expect(max).toBe(1)
  await loop.stop()
})

test('wakeIn can make the next round earlier, but never later', async () => {
  const { loop, rounds } = counted([])
  loop.start()
  await pass(0)
  loop.wakeIn(30)
  loop.wakeIn(80)
  await pass(30)
  expect(rounds()).toBe(2)
  loop.wakeIn(200)
  await pass(100)
  expect(rounds()).toBe(3)
  await loop.stop()
})

test('after failures in a row the pauses grow up to a limit, and a wake does not shorten them', async () => {
  const { loop, rounds } = counted(
    Array.from({ length: 6 }, () => defect),
    { retry: { firstMs: 10, maxMs: 40 } },
  )
  loop.start()
  const at: number[] = []
  for (let ms = 0; ms < 150; ms += 1) {
    const before = rounds()
    loop.wake()
    await pass(1)
    if (rounds() > before) at.push(ms + 1)
    if (rounds() === 6) break
  }
  expect(at).toEqual([10, 30, 70, 110, 150])
  await loop.stop()
})

test('after a success the next failure has a short pause again, and the interval is the usual one', async () => {
  const { loop, rounds } = counted([defect, defect, undefined, defect], {
    retry: { firstMs: 10, maxMs: 1_000 },
  })
  loop.start()
  await pass(30)
  expect(rounds()).toBe(3)
  await pass(100)
  expect(rounds()).toBe(4)
  await pass(10)
  expect(rounds()).toBe(5)
  await loop.stop()
})

test('an outage is reported once until a round succeeds; other failures in a row are reported less and less often', async () => {
  const all = [
    outage,
    outage,
    outage,
    undefined,
    outage,
    undefined,
    ...Array.from({ length: 9 }, () => defect),
  ]
  const { loop, reported } = counted(all, { everyMs: 1 })
  loop.start()
  await pass(60_000)
  expect(reported).toEqual([outage, outage, defect, defect, defect, defect])
  await loop.stop()
})

test('stop aborts the signal of the running round, waits for its end and reports no failure of it', async () => {
  const reported: unknown[] = []
  let cleared = false
  const loop = startLoop({
    work: async (signal) => {
      await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()))
      await new Promise((resolve) => setTimeout(resolve, 50))
      cleared = true
      throw defect
    },
    everyMs: 100,
    failed: (error) => reported.push(error),
    isOutage: () => false,
  })
  const stopped = loop.stop()
  await pass(50)
  await stopped
  expect(cleared).toBe(true)
  expect(reported).toEqual([])
})

test('a round runs in the context in which the loop was created, not in that of the request that wakes it', async () => {
  const storage = new AsyncLocalStorage<string>()
  const seen: (string | undefined)[] = []
  const loop = storage.run('the loop’s own', () =>
    looping(1_000, async () => void seen.push(storage.getStore())),
  )
  await vi.advanceTimersByTimeAsync(0)
  storage.run('a request', () => loop.wake())
  await vi.advanceTimersByTimeAsync(2_000)
  expect(seen).toEqual(Array.from({ length: 4 }, () => 'the loop’s own'))
  await loop.stop()
})

test('the pause doubles while rounds find nothing, up to a limit, and is short again after a wake', async () => {
  const { loop, rounds } = counted(Array(20).fill('idle'), { everyMs: 2_500 })
  const startedAt = Date.now()
  const at: number[] = []
  loop.start()
  for (let ms = 0; ms < 40_000; ms += 500) {
    if (at.length < rounds()) at.push(Date.now() - startedAt)
    await pass(500)
  }
  expect(at).toEqual([0, 2_500, 7_500, 17_500, 27_500, 37_500])
  const before = rounds()
  loop.wake()
  expect(rounds()).toBe(before + 1)
  await pass(2_500)
  expect(rounds()).toBe(before + 2)
  loop.wakeIn(10)
  await pass(10)
  expect(rounds()).toBe(before + 3)
  await loop.stop()
})

test('an interval above the limit stays the same while rounds find nothing', async () => {
  const { loop, rounds } = counted(Array(20).fill('idle'), { everyMs: 60_000 })
  loop.start()
  await pass(180_000)
  expect(rounds()).toBe(4)
  await loop.stop()
})

test('a loop that is asleep runs again when it is woken, at once or later', async () => {
  const { loop, rounds } = counted(Array(20).fill('asleep'))
  loop.start()
  await pass(3_600_000)
  expect(rounds()).toBe(1)
  loop.wake()
  await pass(3_600_000)
  expect(rounds()).toBe(2)
  loop.wakeIn(50)
  await pass(49)
  expect(rounds()).toBe(2)
  await pass(1)
  expect(rounds()).toBe(3)
  await loop.stop()
})

test('a wakeIn during a round takes effect after the round', async () => {
  const round = Promise.withResolvers<'idle'>()
  let rounds = 0
  const loop = looping(1_000, async () => {
    rounds += 1
    return rounds === 1 ? round.promise : 'idle'
  })
  loop.wakeIn(300)
  await pass(100)
  round.resolve('idle')
  await pass(199)
  expect(rounds).toBe(1)
  await pass(1)
  expect(rounds).toBe(2)
  await loop.stop()
})

test('loops with long pauses run together after their first pause, and none runs later than its interval', async () => {
  const startedAt: number[] = []
  const wokenAt: number[][] = []
  const loops: Loop[] = []
  for (const everyMs of [10_000, 7_500, 10_000]) {
    const times: number[] = []
    wokenAt.push(times)
    startedAt.push(performance.now())
    loops.push(looping(everyMs, async () => void times.push(performance.now())))
    await pass(700)
  }
  await pass(60_000)
  await Promise.all(loops.map((loop) => loop.stop()))
  const later = wokenAt.map((times) => times.slice(1))
  expect(new Set(later.flat().map((at) => at % 2_500)).size).toBe(1)
  later.forEach((times, loop) => {
    const everyMs = [10_000, 7_500, 10_000][loop]!
    expect(times[0]! - startedAt[loop]!).toBeLessThanOrEqual(everyMs)
    expect(times[0]! - startedAt[loop]!).toBeGreaterThan(everyMs - 2_500)
    times.slice(1).forEach((at, before) => expect(at - times[before]!).toBe(everyMs))
  })
})
