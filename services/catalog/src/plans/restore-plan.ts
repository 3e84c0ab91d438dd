import type { MessageInitShape } from '@bufbuild/protobuf'
import { PlanSchema } from '@licensing/proto/catalog'
import type { Plan, RestorePlanRequest } from '@licensing/proto/catalog'
import type { CatalogDependencies } from '../dependencies.ts'
import { push } from '../plan-copies/push.ts'
import { countActiveLicences } from './active-licences.ts'
import { changePlanStatus } from './change-plan-status.ts'
import type { Saved } from './change-plan-status.ts'
import { toPlan } from './plan.ts'

/** Interface 3.2: does not reactivate licences; each needs its own call. */
export async function restorePlan(
  deps: CatalogDependencies,
  { accountId, applicationId, planId }: RestorePlanRequest,
  begun?: Plan,
): Promise<MessageInitShape<typeof PlanSchema>> {
  const request = { accountId, applicationId, planId, actor: '' }
  const change = { verb: 'restore', request, isBegun: begun !== undefined, answer } as const
  return changePlanStatus(deps, change, async (copy, plan) => {
    await push(deps, [copy])
    const [count] = await countActiveLicences(deps, [plan.id])
    return toPlan(plan, count!)
  })
}

// Until licensing has counted.
const answer = { schema: PlanSchema, of: ({ plan }: Saved) => toPlan(plan, 0n), isUnfinished: true }
