import type { MessageInitShape } from '@bufbuild/protobuf'
import type { PlanSchema, RestorePlanRequest } from '@licensing/proto/catalog'
import type { CatalogDeps } from '../dependencies.ts'
import { push } from '../plan-copies/push.ts'
import { countActiveLicences } from './active-licences.ts'
import { changePlanStatus } from './change-plan-status.ts'
import { toPlan } from './plan.ts'

/** Interface 3.2: does not reactivate licences; each needs its own call. */
export async function restorePlan(
  deps: CatalogDeps,
  { accountId, applicationId, planId }: RestorePlanRequest,
): Promise<MessageInitShape<typeof PlanSchema>> {
  const request = { accountId, applicationId, planId, actor: '' }
  return changePlanStatus(deps, 'restore', request, async (copy, plan) => {
    await push(deps, [copy])
    const [count] = await countActiveLicences(deps, [plan.id])
    return toPlan(plan, count!)
  })
}
