import { setTimeout as sleep } from 'node:timers/promises'

// The pauses grow, because an attempt that calls a stack takes some milliseconds of CPU time in several processes.
const firstPauseMs = 25
const maxPauseMs = 150

/**
 * Calls `attempt` until it neither throws nor returns false, and returns its result. The last attempt begins after the
 * timeout, so that a slow attempt on a busy machine does not fail a condition that became true in time.
 *
 * @param options.timeoutMs the time after which `attempt` must succeed, by default a minute
 * @param options.intervalMs pause between attempts, by default growing from 25 ms to 150 ms
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
    if (intervalMs === undefined) pauseMs = Math.min(maxPauseMs, pauseMs * 1.25)
  }
}

function timedOut(failure: unknown, timeoutMs: number): unknown {
  if (failure instanceof Error) failure.message += ` (after ${timeoutMs} ms)`
  return failure
}
