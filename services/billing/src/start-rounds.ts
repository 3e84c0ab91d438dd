import { isDatabaseOutage } from '@licensing/database/problems'
import type { Logger } from '@licensing/process/log'
import { startLoop } from '@licensing/process/loop'
import type { Loop } from '@licensing/process/loop'

/** Background work of this service: its failures are logged under a name. */
export function startRounds(
  name: string,
  log: Logger,
  everyMs: number,
  work: (signal: AbortSignal) => Promise<number | void>,
): Loop {
  return startLoop({
    work,
    everyMs,
    failed: (error) => log.warn({ err: error }, `${name}: trying again`),
    isOutage: isDatabaseOutage,
    retry: { firstMs: 1_000, longestMs: 2_000 },
  })
}
