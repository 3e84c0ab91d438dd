import type { Logger } from '@licensing/process/log'
import { startLoop } from '@licensing/process/loop'
import type { Loop, LoopOptions } from '@licensing/process/loop'
import { isDatabaseOutage } from './problems.ts'

/**
 * Starts background work that uses the database. Its failures are logged under its name.
 *
 * @param everyMs milliseconds from one round to the next
 * @example const sweep = startDatabaseLoop('sweep', log, 60_000, () => expire(sql))
 */
export function startDatabaseLoop(
  name: string,
  log: Logger,
  everyMs: number,
  work: LoopOptions['work'],
): Loop {
  return startLoop({
    work,
    everyMs,
    failed: (error) => log.warn({ err: error }, `${name}: trying again`),
    isOutage: isDatabaseOutage,
  })
}
