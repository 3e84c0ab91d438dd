import { Pool } from 'undici'
import { quantile } from './report.ts'

export interface LoadResult {
  perSecond: number
  p50Ms: number
  p99Ms: number
  /** Answers that were not of the expected status. */
  wrong: number
}

export interface LoadRequest {
  method: 'GET' | 'POST'
  path: string
  headers?: Record<string, string>
  body?: string
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
  { connections = 64, seconds = 4 }: { connections?: number; seconds?: number } = {},
): Promise<LoadResult> {
  const pool = new Pool(url, { connections, pipelining: 1 })
  const timesMs: number[] = []
  let wrong = 0
  let n = 0
  const startedMs = performance.now()
  const endMs = startedMs + seconds * 1000
  const worker = async () => {
    while (performance.now() < endMs) {
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
