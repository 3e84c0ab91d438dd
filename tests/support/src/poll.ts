import { setTimeout as sleep } from 'node:timers/promises'

// A try that asks a stack takes some milliseconds of CPU time in several processes, so a long wait makes fewer of them.
const firstPauseMs = 25
const longestPauseMs = 150

/**
 * Calls `attempt` until it neither throws nor answers false, and returns what it answered. The last attempt begins when
 * the time is up: what is promised within a time is kept or not, however long a busy machine takes over one attempt.
 *
 * @param options.timeoutMs from when on `attempt` may not fail any more (a minute when absent)
 * @param options.intervalMs pause between tries (when absent 25 ms at first and 150 ms at last)
 * @throws the failure of that last attempt
 * @example
 * await eventually(async () => expect(await deliveries()).toHaveLength(3))
 */
export async function eventually<Result>(
  attempt: () => Result | Promise<Result>,
  options: { timeoutMs?: number; intervalMs?: number } = {},
): Promise<Awaited<Result>> {
  const { timeoutMs = 60_000, intervalMs } = options
  const until = Date.now() + timeoutMs
  let pauseMs = intervalMs ?? firstPauseMs
  for (;;) {
    const isLast = Date.now() >= until
    let failure: unknown
    try {
      const result = await attempt()
      if (result !== false) return result
      failure = new Error('the condition did not become true')
    } catch (error) {
      failure = error
    }
    if (isLast) throw timedOut(failure, timeoutMs)
    await sleep(pauseMs)
    if (intervalMs === undefined) pauseMs = Math.min(longestPauseMs, pauseMs * 1.25)
  }
}

function timedOut(failure: unknown, timeoutMs: number): unknown {
  if (failure instanceof Error) failure.message += ` (after ${timeoutMs} ms)`
  return failure
}
