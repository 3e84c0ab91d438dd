import type { MessageInitShape } from '@bufbuild/protobuf'
import type { ListEndpointsRequest, ListEndpointsResponseSchema } from '@licensing/proto/notifier'
import type { NotifierDeps } from '../deps.ts'
import { pageSize, toPage } from '../page.ts'
import { endpointMessage } from './endpoint.ts'
import { readEndpoints } from './endpoint-queries.ts'

export async function listEndpoints(
  { sql }: NotifierDeps,
  { accountId, applicationId, limit, beforeId }: ListEndpointsRequest,
): Promise<MessageInitShape<typeof ListEndpointsResponseSchema>> {
  const size = pageSize(limit)
  const page = toPage(
    await readEndpoints(sql, { accountId, applicationId, ...(beforeId && { beforeId }), limit: size + 1 }),
    size,
  )
  return { endpoints: page.rows.map(endpointMessage), hasMore: page.hasMore }
}
