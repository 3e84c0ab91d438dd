import type { MessageInitShape } from '@bufbuild/protobuf'
import { pageOf } from '@licensing/database/page'
import { invalid } from '@licensing/grpc/errors'
import type { ListPlansRequest, ListPlansResponseSchema } from '@licensing/proto/catalog'
import { closedSets, isMember } from '@licensing/proto/closed-sets'
import { checkApplicationId, requireApplication } from '../applications/application-queries.ts'
import type { CatalogDeps } from '../dependencies.ts'
import { checkPage } from '../check-page.ts'
import { countActiveLicences } from './active-licences.ts'
import { listPlanRows } from './plan-queries.ts'
import { toPlan } from './plan.ts'

export async function listPlans(
  deps: CatalogDeps,
  request: ListPlansRequest,
): Promise<MessageInitShape<typeof ListPlansResponseSchema>> {
  const { accountId, applicationId, limit, status } = request
  if (status !== undefined && !isMember('planStatus', status)) {
    throw invalid('/status', `must be ${closedSets.planStatus.join(' or ')}`)
  }
  checkPage('pln', request)
  checkApplicationId(applicationId)
  const rows = await listPlanRows(deps.sql, accountId, applicationId, request)
  if (rows.length === 0) await requireApplication(deps.sql, accountId, applicationId)
  const { page, hasMore } = pageOf(rows, limit)
  const counts = await countActiveLicences(
    deps,
    page.map((row) => row.id),
  )
  return { plans: page.map((row, at) => toPlan(row, counts[at]!)), hasMore }
}
