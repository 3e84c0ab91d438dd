import type { MessageInitShape } from '@bufbuild/protobuf'
import { pageOf, rowsFor } from '@licensing/database/page'
import type { ListEndpointsRequest, ListEndpointsResponseSchema } from '@licensing/proto/notifier'
import type { NotifierDeps } from '../dependencies.ts'
import { endpointMessage } from './endpoint.ts'
import { readEndpoints } from './endpoint-queries.ts'

export async function listEndpoints(
  { sql }: NotifierDeps,
  { accountId, applicationId, limit, beforeId }: ListEndpointsRequest,
): Promise<MessageInitShape<typeof ListEndpointsResponseSchema>> {
  const rows = await readEndpoints(sql, {
    accountId,
    applicationId,
    ...(beforeId && { beforeId }),
    limit: rowsFor(limit),
  })
  const { page, hasMore } = pageOf(rows, limit)
  return { endpoints: page.map(endpointMessage), hasMore }
}
