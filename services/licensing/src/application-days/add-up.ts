import type { Database } from '@licensing/database/connect'
import { isDatabaseOutage } from '@licensing/database/problems'
import type { Logger } from '@licensing/process/log'
import { startLoop } from '@licensing/process/loop'
import type { Loop } from '@licensing/process/loop'
import { addUp } from './day-queries.ts'

const everyMs = 2_000
const idleMs = 10_000
const mostAtOnce = 20_000

/** Keeps what readers have to add up small. */
export function startAddingUp({ sql, log }: { sql: Database; log: Logger }): Loop {
  return startLoop({
    work: async () => {
      const added = await addUp(sql, mostAtOnce)
      return added === mostAtOnce ? 0 : added === 0 ? 'idle' : everyMs
    },
    everyMs,
    idleMs,
    failed: (error) => log.warn({ err: error }, 'what happened on days could not be added up, trying again'),
    isOutage: isDatabaseOutage,
  })
}
