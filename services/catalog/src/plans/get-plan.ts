import type { MessageInitShape } from '@bufbuild/protobuf'
import { isId } from '@licensing/database/ids'
import type { GetPlanRequest, PlanSchema } from '@licensing/proto/catalog'
import { checkApplicationId, requireApplication } from '../applications/application-queries.ts'
import type { CatalogDependencies } from '../dependencies.ts'
import { notFound } from '../refusals.ts'
import { countActiveLicences } from './active-licences.ts'
import { findPlan } from './plan-queries.ts'
import { toPlan } from './plan.ts'

export async function getPlan(
  deps: CatalogDependencies,
  { accountId, applicationId, planId }: GetPlanRequest,
): Promise<MessageInitShape<typeof PlanSchema>> {
  checkApplicationId(applicationId)
  const row = isId('pln', planId) ? await findPlan(deps.sql, accountId, applicationId, planId) : undefined
  if (!row) {
    await requireApplication(deps.sql, accountId, applicationId)
    throw notFound('plan', planId)
  }
  const [count] = await countActiveLicences(deps, [planId])
  return toPlan(row, count!)
}
