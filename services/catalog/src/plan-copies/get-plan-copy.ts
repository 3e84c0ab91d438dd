import type { MessageInitShape } from '@bufbuild/protobuf'
import { isId } from '@licensing/database/ids'
import type { GetPlanCopyRequest, PlanCopySchema } from '@licensing/proto/catalog'
import { checkApplicationId } from '../applications/application-queries.ts'
import type { CatalogDependencies } from '../dependencies.ts'
import { notFound } from '../refusals.ts'
import { findCopy } from './plan-copy-queries.ts'
import { toPlanCopy } from './plan-copy.ts'

export async function getPlanCopy(
  { sql }: CatalogDependencies,
  { accountId, applicationId, planId }: GetPlanCopyRequest,
): Promise<MessageInitShape<typeof PlanCopySchema>> {
  checkApplicationId(applicationId)
  const row = isId('pln', planId) ? await findCopy(sql, planId, accountId, applicationId) : undefined
  if (!row) throw notFound('plan', planId)
  return toPlanCopy(row)
}
