import type { MessageInitShape } from '@bufbuild/protobuf'
import { pageOf, rowsFor } from '@licensing/database/page'
import type { ListEndpointsRequest, ListEndpointsResponseSchema } from '@licensing/proto/notifier'
import type { NotifierDependencies } from '../dependencies.ts'
import { endpointMessage } from './endpoint.ts'
import { findEndpoints } from './endpoint-queries.ts'

export async function listEndpoints(
  { sql }: NotifierDependencies,
  { accountId, applicationId, limit, beforeId }: ListEndpointsRequest,
): Promise<MessageInitShape<typeof ListEndpointsResponseSchema>> {
  const rows = await findEndpoints(sql, {
    accountId,
    applicationId,
    ...(beforeId && { beforeId }),
    limit: rowsFor(limit),
  })
  const { page, hasMore } = pageOf(rows, limit)
  return { endpoints: page.map(endpointMessage), hasMore }
}
