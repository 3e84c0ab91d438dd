import type { MessageInitShape } from '@bufbuild/protobuf'
import { pageOf, rowsFor } from '@licensing/database/page'
import type { ListPlanCopiesRequest, ListPlanCopiesResponseSchema } from '@licensing/proto/catalog'
import type { CatalogDependencies } from '../dependencies.ts'
import { copiesAfter } from './plan-copy-queries.ts'
import { partsOf, toPlanCopy } from './plan-copy.ts'

// Well below the 16 MiB that a client takes.
const mostAnswerBytes = 4 * 1024 * 1024

/** A page is shorter than asked for where its copies are large: `has_more` alone says whether there are others. */
export async function listPlanCopies(
  { sql }: CatalogDependencies,
  { afterId, limit }: ListPlanCopiesRequest,
): Promise<MessageInitShape<typeof ListPlanCopiesResponseSchema>> {
  const { page, hasMore } = pageOf(await copiesAfter(sql, afterId, rowsFor(limit)), limit)
  const [plans = [], ...rest] = partsOf(page.map(toPlanCopy), mostAnswerBytes)
  return { plans, hasMore: hasMore || rest.length > 0 }
}
