/** A delivery has twelve attempts (docs/guides/webhooks.md, "Retry schedule"). */
export const maxAttempts = 12

const minute = 60
const hour = 60 * minute

/** 1 minute, 5 minutes, 30 minutes, 2 hours, then 6-hour steps (docs/guides/webhooks.md, "Retry schedule"); seconds. */
const interfaceWaits = [minute, 5 * minute, 30 * minute, 2 * hour, 6 * hour]

const maxRetryAfterSeconds = 6 * hour
const jitter = 0.1

/** The waits after the 1st to the 11th failed attempt, in seconds. */
export type Backoff = readonly number[]

/** @param waits the first waits in seconds; the last one repeats */
export function createBackoff(waits: readonly number[] = interfaceWaits): Backoff {
  return Array.from({ length: maxAttempts - 1 }, (_, i) => waits[Math.min(i, waits.length - 1)] ?? 0)
}

/** Reads WEBHOOK_BACKOFF_SECONDS. Throws if it is not numbers separated by commas. */
export function readSeconds(list: string): number[] {
  return list.split(',').map((entry) => {
    if (!/^\s*[0-9]{1,7}(\.[0-9]{1,3})?\s*$/.test(entry)) {
      throw new Error('must be seconds separated by commas, such as 60,300,1800')
    }
    return Number(entry)
  })
}

/** Milliseconds from the next attempt to the last one, after the 1st to the 11th failed attempt. */
export function remainingMs(backoff: Backoff): number[] {
  return backoff.map((_, at) => Math.round(backoff.slice(at + 1).reduce((sum, wait) => sum + 1000 * wait, 0)))
}

export interface Failure {
  /** Attempts of the schedule that have failed, this one included. */
  failures: number
  responseCode: number | null
  retryAfterSeconds: number | null
}

/**
 * Milliseconds from the end of a failed attempt to the next one; null when it was the last.
 *
 * @param random 0 to 1
 */
export function waitAfter(backoff: Backoff, failure: Failure, random: number): number | null {
  const seconds = backoff[failure.failures - 1]
  if (failure.failures >= maxAttempts || seconds === undefined) return null
  // The first wait is exact. Later ones vary, so that deliveries that failed together are not retried together.
  const spread = failure.failures === 1 ? 1 : 1 + jitter * (2 * random - 1)
  return Math.round(1000 * Math.max(seconds * spread, secondsAskedFor(failure)))
}

function secondsAskedFor({ responseCode, retryAfterSeconds }: Failure): number {
  if (responseCode !== 429 && responseCode !== 503) return 0
  return Math.min(retryAfterSeconds ?? 0, maxRetryAfterSeconds)
}
