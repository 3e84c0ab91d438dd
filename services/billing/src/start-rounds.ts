import { isDatabaseOutage } from '@licensing/database/problems'
import type { Logger } from '@licensing/process/log'
import { startLoop } from '@licensing/process/loop'
import type { Loop, LoopOptions } from '@licensing/process/loop'

/** Starts a background loop that logs failures under its name. */
export function startRounds(name: string, log: Logger, everyMs: number, work: LoopOptions['work']): Loop {
  return startLoop({
    work,
    everyMs,
    failed: (error) => log.warn({ err: error }, `${name}: trying again`),
    isOutage: isDatabaseOutage,
    retry: { firstMs: 1_000, longestMs: 2_000 },
  })
}
