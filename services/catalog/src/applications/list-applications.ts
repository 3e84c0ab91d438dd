import type { MessageInitShape } from '@bufbuild/protobuf'
import { pageOf } from '@licensing/database/page'
import type { ListApplicationsRequest, ListApplicationsResponseSchema } from '@licensing/proto/catalog'
import type { CatalogDependencies } from '../dependencies.ts'
import { checkPage } from '../check-page.ts'
import { listApplicationRows } from './application-queries.ts'
import { toApplication } from './application.ts'

export async function listApplications(
  { sql }: CatalogDependencies,
  request: ListApplicationsRequest,
): Promise<MessageInitShape<typeof ListApplicationsResponseSchema>> {
  checkPage('app', request)
  const rows = await listApplicationRows(sql, request.accountId, request, request.onlyApplicationId)
  const { page, hasMore } = pageOf(rows, request.limit)
  return { applications: page.map(toApplication), hasMore }
}
