import { setTimeout as pause } from 'node:timers/promises'
import { Pool } from 'undici'
import { median, quantile } from './report.ts'

export interface LoadResult {
  perSecond: number
  p50Ms: number
  p99Ms: number
  /** The number of answers without the expected status. */
  wrong: number
}

export interface LoadRequest {
  method: 'GET' | 'POST'
  path: string
  headers?: Record<string, string>
  body?: string
}

export interface LoadOptions {
  connections?: number
  seconds?: number
  /** Sends this many requests, however long that takes. */
  count?: number
  /** Continues after `seconds` until this returns true. */
  until?: () => boolean
}

/**
 * Sends requests over kept connections, one at a time on each, for `seconds`.
 *
 * @param next makes the request of number n
 */
export async function load(
  url: string,
  expected: number,
  next: (n: number) => LoadRequest,
  { connections = 64, seconds = 4, count, until }: LoadOptions = {},
): Promise<LoadResult> {
  const pool = new Pool(url, { connections, pipelining: 1 })
  const timesMs: number[] = []
  let wrong = 0
  let n = 0
  const startedMs = performance.now()
  const endMs = startedMs + seconds * 1000
  const worker = async () => {
    const goesOn = () => performance.now() < endMs || until?.() === false
    while (count === undefined ? goesOn() : n < count) {
      const { method, path, headers, body } = next(n++)
      const sentMs = performance.now()
      const answer = await pool.request({ method, path, ...(headers && { headers }), ...(body && { body }) })
      await answer.body.dump()
      timesMs.push(performance.now() - sentMs)
      if (answer.statusCode !== expected) wrong += 1
    }
  }
  await Promise.all(Array.from({ length: connections }, worker))
  const tookMs = performance.now() - startedMs
  await pool.close()
  return {
    perSecond: (timesMs.length / tookMs) * 1000,
    p50Ms: quantile(timesMs, 0.5),
    p99Ms: quantile(timesMs, 0.99),
    wrong,
  }
}

/**
 * Measures several kinds of call without concurrency, in milliseconds: the median, or the result of `of`. The kinds
 * alternate, so that other load on the machine affects all of them equally.
 */
export async function takingTurns(
  kinds: ReadonlyMap<string, () => Promise<unknown>>,
  rounds: number,
  of: (times: number[]) => number = median,
): Promise<Map<string, number>> {
  const times = new Map([...kinds.keys()].map((name) => [name, [] as number[]]))
  for (let round = 0; round <= rounds; round += 1) {
    for (const [name, call] of kinds) {
      const startedMs = performance.now()
      await call()
      // The first round only warms caches and connections.
      if (round > 0) times.get(name)!.push(performance.now() - startedMs)
    }
  }
  return new Map([...times].map(([name, each]) => [name, of(each)]))
}

/** Calls `work` in `lanes` loops at a time for `seconds`. @returns calls per second */
export async function loop(work: () => Promise<unknown>, lanes: number, seconds: number): Promise<number> {
  let done = 0
  const startedMs = performance.now()
  const endMs = startedMs + seconds * 1000
  const lane = async () => {
    while (performance.now() < endMs) {
      await work()
      done += 1
    }
  }
  await Promise.all(Array.from({ length: lanes }, lane))
  return (done / (performance.now() - startedMs)) * 1000
}

/** Starts `work` at this rate per second, even if earlier calls have not ended, and waits for all of them. */
export async function atPace(
  perSecond: number,
  count: number,
  work: (n: number) => Promise<void>,
): Promise<void> {
  const startedMs = performance.now()
  const running: Promise<void>[] = []
  for (let n = 0; n < count; n += 1) {
    const dueInMs = startedMs + (n * 1000) / perSecond - performance.now()
    if (dueInMs > 1) await pause(dueInMs)
    running.push(work(n))
  }
  await Promise.all(running)
}
