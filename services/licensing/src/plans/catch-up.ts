import { longLockTimeout } from '@licensing/changes/change'
import { startDatabaseLoop } from '@licensing/database/database-loop'
import type { Consumer } from '@licensing/events/consumer'
import { currentEpoch } from '@licensing/events/epoch-queries'
import type { LicensingDependencies } from '../dependencies.ts'
import { applyPlanCopies } from './apply-plan-copies.ts'
import { findNewestEpoch, retireLostPlans } from './plan-queries.ts'

const pageSize = 200
const timeoutMs = 2_000
const retryMs = 250
const checkMs = 5_000

export interface CatchUp {
  /** Throws until all plan copies are stored. */
  probe(): void
  stop(): Promise<void>
}

/**
 * Reads all plan copies from catalog at the start of the process, and again whenever the epoch of catalog's database or of
 * this one has changed: one of them may then have lost changes. If catalog does not answer at the start, waits until the
 * consumer has caught up. Until then the service is not ready, because it would refuse plans that exist.
 */
export function startCatchUp(deps: LicensingDependencies & { consumer: Consumer }): CatchUp {
  const { sql, log, consumer } = deps
  let isReady = false
  /** The epochs in which all copies were read. */
  let read: { catalog: bigint; own: bigint } | undefined
  const readIfChanged = async () => {
    const { ordinal: own } = await currentEpoch(sql)
    const seen = read?.catalog ?? (await findNewestEpoch(sql))
    const { epoch: catalog } = await deps.catalog.getCopyEpoch({ seen }, { timeoutMs })
    if (read?.own === own && read.catalog === catalog) return
    await readAllCopies(deps)
    const lost = await retireLostPlans(sql, catalog)
    if (lost > 0) log.error({ plans: lost }, 'catalog has lost plans: they are retired, their licences stay')
    read = { catalog, own }
    isReady = true
  }
  const loop = startDatabaseLoop('update of plan copies', log, checkMs, async () => {
    try {
      await readIfChanged()
      return checkMs
    } catch (error) {
      log.debug({ err: error }, 'plan copies could not be read from catalog')
      isReady ||= await consumer.hasCaughtUp()
      return isReady ? checkMs : retryMs
    }
  })
  return {
    probe() {
      if (!isReady) throw new Error('plan copies are not complete yet')
    },
    stop: () => loop.stop(),
  }
}

async function readAllCopies({ catalog, change }: LicensingDependencies): Promise<void> {
  for (let afterId = ''; ;) {
    const page = await catalog.listPlanCopies({ afterId, limit: pageSize }, { timeoutMs })
    await change((tx) => applyPlanCopies(tx, page.plans), longLockTimeout)
    const last = page.plans.at(-1)
    if (!page.hasMore || !last) return
    afterId = last.id
  }
}
