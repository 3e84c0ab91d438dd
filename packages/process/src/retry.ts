/** The first pause, doubled with each further failure up to the longest. */
export interface Pauses {
  firstMs: number
  maxMs: number
}

interface RetryOptions extends Pauses {
  /**
   * Whether an error of `work` is retried, after this many failures. `at once` omits the pause. The error of the last try is
   * thrown.
   */
  isRetried: (error: unknown, failures: number) => boolean | 'at once'
  /** Random part of each pause, from 0 (by default) to 1, so that several callers do not retry at the same time. */
  jitter?: number
  /** Ends the pause. The signal's reason is thrown then. */
  signal?: AbortSignal
}

/**
 * Does `work` until it succeeds, or fails with an error that is not retried.
 *
 * @throws the error that is not retried, or the signal's reason
 * @example await retry(() => connect(), { firstMs: 50, maxMs: 2_000, isRetried: isOutage, signal })
 */
export async function retry<T>(
  work: () => Promise<T>,
  { isRetried, jitter = 0, signal, ...pauses }: RetryOptions,
): Promise<T> {
  for (let failures = 1; ; failures += 1) {
    try {
      return await work()
    } catch (error) {
      const isAgain = isRetried(error, failures)
      if (!isAgain) throw error
      if (isAgain !== 'at once')
        await pause(pauseAfter(pauses, failures) * (1 - jitter * Math.random()), signal)
      signal?.throwIfAborted()
    }
  }
}

/** Milliseconds from the latest of this many failures in a row to the next try. */
export function pauseAfter({ firstMs, maxMs }: Pauses, failures: number): number {
  return Math.min(firstMs * 2 ** Math.min(failures - 1, 30), maxMs)
}

/** Resolves after `ms` milliseconds, or at once when the signal aborts. */
export function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve()
    const end = () => {
      clearTimeout(timer)
      signal?.removeEventListener('abort', end)
      resolve()
    }
    const timer = setTimeout(end, ms)
    signal?.addEventListener('abort', end, { once: true })
  })
}
