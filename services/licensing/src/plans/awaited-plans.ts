import { startDatabaseLoop } from '@licensing/database/database-loop'
import { isDatabaseUnavailable } from '@licensing/database/problems'
import type { Loop } from '@licensing/process/loop'
import type { LicensingDependencies } from '../dependencies.ts'
import { askCatalog } from './ask-catalog.ts'
import type { CatalogAnswer } from './ask-catalog.ts'
import {
  hasAwaitedPlans,
  listAwaitedPlans,
  postponeAwaitedPlan,
  removeArrivedPlans,
  settleAwaitedPlan,
} from './awaited-plan-queries.ts'
import type { PlanVersion } from './awaited-plan-queries.ts'

const pollMs = 500
// Catalog pushes a change at the same time as it sends the event.
export const pushTakesMs = 1_000
// Asked at the same time, so that a plan whose answer takes long does not delay the others.
const askedAtOnce = 10

/** Asks catalog for the plans whose new version is only known from an event, because their push failed. */
export function startAwaitedPlans(deps: LicensingDependencies): Loop {
  const { sql, log } = deps
  const ask = async (awaited: PlanVersion): Promise<CatalogAnswer> => {
    const { plan_id: planId, account_id: accountId, application_id: applicationId } = awaited
    const answer = await askCatalog(deps, { planId, accountId, applicationId }).catch((error: unknown) => {
      if (isDatabaseUnavailable(error)) throw error
      log.error({ err: error, plan_id: planId }, 'the copy of a plan could not be stored, trying again')
      return 'unavailable' as const
    })
    if (answer === 'unknown')
      log.error({ plan_id: planId }, 'catalog does not have a plan that its event named')
    // Catalog owns the version: if its answer has an older one, it has lost the version that the event named.
    await (answer === 'unavailable' ? postponeAwaitedPlan : settleAwaitedPlan)(sql, awaited)
    return answer
  }
  const fetchAwaited = async () => {
    if (!(await hasAwaitedPlans(sql))) return 'idle'
    await removeArrivedPlans(sql)
    const answers = await Promise.all((await listAwaitedPlans(sql, pushTakesMs, askedAtOnce)).map(ask))
    return answers.some((answer) => answer !== 'unavailable') ? 0 : pollMs
  }
  return startDatabaseLoop('awaited plans', log, pollMs, fetchAwaited)
}
