import { startDatabaseLoop } from '@licensing/database/database-loop'
import { isDatabaseUnavailable } from '@licensing/database/problems'
import type { Loop } from '@licensing/process/loop'
import type { LicensingDependencies } from '../dependencies.ts'
import { askCatalog } from './ask-catalog.ts'
import {
  hasAwaitedPlans,
  listAwaitedPlans,
  postponeAwaitedPlan,
  removeArrivedPlans,
  removeAwaitedPlan,
} from './awaited-plan-queries.ts'

const pollMs = 500
// Catalog pushes a change at the same time as it sends the event.
export const pushTakesMs = 1_000
const batchSize = 20

/** Asks catalog for the plans whose new version is only known from an event, because their push failed. */
export function startAwaitedPlans(deps: LicensingDependencies): Loop {
  const { sql, log } = deps
  const fetchAwaited = async () => {
    if (!(await hasAwaitedPlans(sql))) return 'idle'
    await removeArrivedPlans(sql)
    const awaited = await listAwaitedPlans(sql, pushTakesMs, batchSize)
    for (const { plan_id: planId, account_id: accountId, application_id: applicationId } of awaited) {
      try {
        const answer = await askCatalog(deps, { planId, accountId, applicationId })
        if (answer === 'unavailable') return pollMs
        if (answer === 'known') continue
        log.error({ plan_id: planId }, 'catalog does not have a plan that its event named')
        await removeAwaitedPlan(sql, planId)
      } catch (error) {
        if (isDatabaseUnavailable(error)) throw error
        log.error({ err: error, plan_id: planId }, 'the copy of a plan could not be stored, trying again')
        await postponeAwaitedPlan(sql, planId)
      }
    }
    if (awaited.length === 0) return pollMs
    await removeArrivedPlans(sql)
    return awaited.length === batchSize ? 0 : pollMs
  }
  return startDatabaseLoop('awaited plans', log, pollMs, fetchAwaited)
}
