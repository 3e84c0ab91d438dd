import { setTimeout as sleep } from 'node:timers/promises'

/**
 * Calls `attempt` until it neither throws nor answers false, and returns what it answered.
 *
 * @param options.timeoutMs how long to keep trying (a minute when absent)
 * @param options.intervalMs pause between tries (25 ms when absent)
 * @throws the last failure of `attempt` when the time is up
 * @example
 * await eventually(async () => expect(await deliveries()).toHaveLength(3))
 */
export async function eventually<Result>(
  attempt: () => Result | Promise<Result>,
  options: { timeoutMs?: number; intervalMs?: number } = {},
): Promise<Awaited<Result>> {
  const { timeoutMs = 60_000, intervalMs = 25 } = options
  const until = Date.now() + timeoutMs
  for (;;) {
    let failure: unknown
    try {
      const result = await attempt()
      if (result !== false) return result
      failure = new Error('the condition did not become true')
    } catch (error) {
      failure = error
    }
    if (Date.now() >= until) throw timedOut(failure, timeoutMs)
    await sleep(intervalMs)
  }
}

function timedOut(failure: unknown, timeoutMs: number): unknown {
  if (failure instanceof Error) failure.message += ` (after ${timeoutMs} ms)`
  return failure
}
