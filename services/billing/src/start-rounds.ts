import { isDatabaseOutage } from '@licensing/database/problems'
import type { Logger } from '@licensing/process/log'
import { startLoop } from '@licensing/process/loop'
import type { Loop } from '@licensing/process/loop'

/**
 * Starts a background loop that logs failures under its name.
 *
 * @param idleMs longest pause between rounds that find nothing; `everyMs` if absent
 */
export function startRounds(
  name: string,
  log: Logger,
  everyMs: number,
  work: (signal: AbortSignal) => Promise<number | 'idle' | void>,
  idleMs = everyMs,
): Loop {
  return startLoop({
    work,
    everyMs,
    idleMs,
    failed: (error) => log.warn({ err: error }, `${name}: trying again`),
    isOutage: isDatabaseOutage,
    retry: { firstMs: 1_000, longestMs: 2_000 },
  })
}
