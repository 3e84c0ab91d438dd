import { longLockTimeout } from '@licensing/changes/change'
import { startDatabaseLoop } from '@licensing/database/database-loop'
import type { Consumer } from '@licensing/events/consumer'
import type { LicensingDependencies } from '../dependencies.ts'
import { applyPlanCopies } from './apply-plan-copies.ts'

const pageSize = 200
const timeoutMs = 2_000
const retryMs = 250

export interface CatchUp {
  /** Throws until all plan copies are stored. */
  probe(): void
  stop(): Promise<void>
}

/**
 * Updates the plan copies at the start of the process: it reads all plans from catalog or, if catalog does not answer,
 * waits until the consumer has caught up. Until then the service is not ready, because it would refuse plans that exist.
 */
export function startCatchUp(deps: LicensingDependencies & { consumer: Consumer }): CatchUp {
  let done = false
  const loop = startDatabaseLoop('update of plan copies', deps.log, retryMs, async () => {
    done = (await readAllCopies(deps)) || (await deps.consumer.hasCaughtUp())
    return done ? 'done' : retryMs
  })
  return {
    probe() {
      if (!done) throw new Error('plan copies are not complete yet')
    },
    stop: () => loop.stop(),
  }
}

/** @returns false if catalog or the database does not answer */
async function readAllCopies({ catalog, change, log }: LicensingDependencies): Promise<boolean> {
  try {
    for (let afterId = ''; ;) {
      const page = await catalog.listPlanCopies({ afterId, limit: pageSize }, { timeoutMs })
      await change((tx) => applyPlanCopies(tx, page.plans), longLockTimeout)
      const last = page.plans.at(-1)
      if (!page.hasMore || !last) return true
      afterId = last.id
    }
  } catch (error) {
    log.debug({ err: error }, 'plan copies could not be read from catalog')
    return false
  }
}
