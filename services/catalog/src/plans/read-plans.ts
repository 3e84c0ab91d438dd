import { isId } from '@licensing/database/ids'
import type { ListPlansRequest } from '@licensing/proto/catalog'
import type { Sql } from '@licensing/database/connect'
import { pageOf, pageSize } from '@licensing/database/page'
import { invalid, ServiceError } from '@licensing/grpc/errors'
import { closedSets, isMember } from '@licensing/proto/closed-sets'
import { requireApplication } from '../applications/application-queries.ts'
import type { CatalogDependencies, Handler } from '../dependencies.ts'
import { checkApplicationId, notFound, checkPage } from '../refusals.ts'
import { findPlan, listPlanRows } from './plan-queries.ts'
import { toPlan } from './plan.ts'
import type { PlanRow } from './plan.ts'

export const getPlan: Handler<'getPlan'> = async (deps, { accountId, applicationId, planId }) => {
  checkApplicationId(applicationId)
  const row = isId('pln', planId) ? await findPlan(deps.sql, accountId, applicationId, planId) : undefined
  if (!row) {
    await requireApplication(deps.sql, accountId, applicationId)
    throw notFound('plan', planId)
  }
  const [count] = await countActiveLicences(deps, [planId])
  return toPlan(row, count!)
}

// A plan has as many overrides as its application has definitions, and up to 25,000 characters of metadata.
const maxBytes = 1024 * 1024
const readTogether = 50

export const listPlans: Handler<'listPlans'> = async (deps, request) => {
  const { accountId, applicationId, status } = request
  if (status !== undefined && !isMember('planStatus', status)) {
    throw invalid('/status', `must be ${closedSets.planStatus.join(' or ')}`)
  }
  checkPage('pln', request)
  checkApplicationId(applicationId)
  const { page, hasMore } = await readPage(deps.sql, request)
  if (page.length === 0) await requireApplication(deps.sql, accountId, applicationId)
  const counts = await countActiveLicences(
    deps,
    page.map((row) => row.id),
  )
  return { plans: page.map((row, at) => toPlan(row, counts[at]!)), hasMore }
}

/** A page of large plans is shorter than `limit`: only `has_more` says whether there are more. */
async function readPage(sql: Sql, request: ListPlansRequest): Promise<{ page: PlanRow[]; hasMore: boolean }> {
  const { accountId, applicationId, status } = request
  const size = pageSize(request.limit)
  const plans: PlanRow[] = []
  let bytes = 0
  for (let beforeId = request.beforeId; ; beforeId = plans.at(-1)!.id) {
    const limit = Math.min(readTogether, size - plans.length)
    const rows = await listPlanRows(sql, accountId, applicationId, { limit, beforeId, status })
    const { page, hasMore } = pageOf(rows, limit)
    for (const row of page) {
      bytes += JSON.stringify([row.overrides, row.metadata]).length
      if (bytes > maxBytes && plans.length > 0) return { page: plans, hasMore: true }
      plans.push(row)
    }
    if (!hasMore || plans.length === size) return { page: plans, hasMore }
  }
}

/** Counts the active licences of each plan, in the order of `planIds`. Licensing counts, so that the numbers are exact. */
export async function countActiveLicences(
  { licensing }: CatalogDependencies,
  planIds: string[],
): Promise<bigint[]> {
  if (planIds.length === 0) return []
  try {
    const { counts } = await licensing.countActiveLicences({ planIds })
    return planIds.map((_, at) => counts[at] ?? 0n)
  } catch (cause) {
    throw new ServiceError('unavailable', 'active licences cannot be counted at the moment: try again', {
      cause,
    })
  }
}
