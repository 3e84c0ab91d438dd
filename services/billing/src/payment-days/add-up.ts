import { isDatabaseOutage } from '@licensing/database/problems'
import { startLoop } from '@licensing/process/loop'
import type { Loop } from '@licensing/process/loop'
import type { BillingDependencies } from '../dependencies.ts'
import { addUpChanges } from './payment-day-queries.ts'

const everyMs = 2_000
const idleMs = 10_000
const mostAtOnce = 20_000

/** Keeps what readers have to add up small. */
export function startAddingUp({ sql, log }: Pick<BillingDependencies, 'sql' | 'log'>): Loop {
  return startLoop({
    work: async () => {
      const added = await addUpChanges(sql, mostAtOnce)
      return added === mostAtOnce ? 0 : added === 0 ? 'idle' : everyMs
    },
    everyMs,
    idleMs,
    failed: (error) => log.warn({ err: error }, 'changes of days could not be added up, trying again'),
    isOutage: isDatabaseOutage,
  })
}
