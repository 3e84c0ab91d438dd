import { longLockTimeout } from '@licensing/changes/change'
import { isId } from '@licensing/database/ids'
import { invalid, ServiceError } from '@licensing/grpc/errors'
import type { LicensingDependencies } from '../dependencies.ts'
import { applyPlanCopies } from './apply-plan-copies.ts'

interface WantedPlan {
  accountId: string
  applicationId: string
  planId: string
}

/** `known`: catalog has the plan, and its copy is stored now. `unavailable`: catalog does not answer. */
export type CatalogAnswer = 'known' | 'unknown' | 'unavailable'

// An issue waits for this call: it must not be blocked while catalog is unavailable.
const timeoutMs = 2_000

/** Asks catalog for a plan that has no copy yet, and stores its copy. */
export async function askCatalog(
  { catalog, change, log }: LicensingDependencies,
  plan: WantedPlan,
): Promise<CatalogAnswer> {
  if (!isId('pln', plan.planId)) return 'unknown'
  try {
    const copy = await catalog.getPlanCopy(plan, { timeoutMs })
    await change((tx) => applyPlanCopies(tx, [copy]), longLockTimeout)
    return 'known'
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error
    if (error.code === 'not_found') return 'unknown'
    log.warn({ err: error, plan_id: plan.planId }, 'catalog could not be asked for a plan')
    return 'unavailable'
  }
}

/**
 * Fetches a plan that has no copy yet, for a request that needs it.
 *
 * @throws ServiceError `validation_failed` if there is no such plan, `unavailable` if catalog does not answer
 */
export async function fetchPlan(deps: LicensingDependencies, plan: WantedPlan): Promise<void> {
  const answer = await askCatalog(deps, plan)
  if (answer === 'unknown') throw planUnknown(plan)
  if (answer === 'unavailable') throw planUnavailable(plan.planId)
}

export function planUnavailable(planId: string): ServiceError {
  return new ServiceError('unavailable', `plan ${planId} is not available yet: try again later`)
}

export function planUnknown({ planId }: WantedPlan): ServiceError {
  return invalid('/plan_id', `there is no plan ${planId} in this application`)
}
