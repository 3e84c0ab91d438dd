import { isId } from '@licensing/database/ids'
import { pageOf, rowsFor } from '@licensing/database/page'
import { currentEpoch } from '@licensing/events/epoch-queries'
import type { Handler } from '../dependencies.ts'
import { checkApplicationId, notFound } from '../refusals.ts'
import { findCopy, listCopiesAfter } from './plan-copy-queries.ts'
import { toPlanCopy, partsOf } from './plan-copy.ts'

export const getPlanCopy: Handler<'getPlanCopy'> = async ({ sql }, { accountId, applicationId, planId }) => {
  checkApplicationId(applicationId)
  const row = isId('pln', planId) ? await findCopy(sql, planId, accountId, applicationId) : undefined
  if (!row) throw notFound('plan', planId)
  return toPlanCopy(row)
}

export const getCopyEpoch: Handler<'getCopyEpoch'> = async ({ sql }, { seen }) => ({
  epoch: (await currentEpoch(sql, seen)).ordinal,
})

// Much smaller than the 16 MiB that a client accepts.
const maxAnswerBytes = 4 * 1024 * 1024

/** A page of large copies is shorter than `limit`: only `has_more` says whether there are more. */
export const listPlanCopies: Handler<'listPlanCopies'> = async ({ sql }, { afterId, limit }) => {
  const { page, hasMore } = pageOf(await listCopiesAfter(sql, afterId, rowsFor(limit)), limit)
  const [plans = [], ...rest] = partsOf(page.map(toPlanCopy), maxAnswerBytes)
  return { plans, hasMore: hasMore || rest.length > 0 }
}
