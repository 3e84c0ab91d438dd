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

const lookEveryMs = 500
// Catalog pushes a change at the same time as it sends the event.
export const pushTakesMs = 1_000
const askedAtOnce = 20

/** Asks catalog for the plans whose new version is only known from an event, because their push failed. */
export function startAwaitedPlans(deps: LicensingDependencies): Loop {
  const { sql, log } = deps
  const look = async () => {
    if (!(await hasAwaitedPlans(sql))) return 'idle'
    await removeArrivedPlans(sql)
    const awaited = await listAwaitedPlans(sql, pushTakesMs, askedAtOnce)
    for (const { plan_id: planId, account_id: accountId, application_id: applicationId } of awaited) {
      try {
        const answer = await askCatalog(deps, { planId, accountId, applicationId })
        if (answer === 'unavailable') return lookEveryMs
        if (answer === 'known') continue
        log.error({ plan_id: planId }, 'catalog does not have a plan that its event named')
        await removeAwaitedPlan(sql, planId)
      } catch (error) {
        if (isDatabaseUnavailable(error)) throw error
        log.error({ err: error, plan_id: planId }, 'the copy of a plan could not be stored, trying again')
        await postponeAwaitedPlan(sql, planId)
      }
    }
    if (awaited.length === 0) return lookEveryMs
    await removeArrivedPlans(sql)
    return awaited.length === askedAtOnce ? 0 : lookEveryMs
  }
  return startDatabaseLoop('awaited plans', log, lookEveryMs, look)
}
