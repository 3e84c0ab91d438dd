import type { MessageInitShape } from '@bufbuild/protobuf'
import { pageOf, rowsFor } from '@licensing/database/page'
import type {
  ListEndpointsRequest,
  ListEndpointsResponseSchema,
  EndpointRequest,
  EndpointSchema,
} from '@licensing/proto/notifier'
import type { NotifierDependencies } from '../dependencies.ts'
import { findEndpoints } from './endpoint-queries.ts'
import { endpointMessage, endpointNotFound } from './endpoint.ts'

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

export async function getEndpoint(
  { sql }: NotifierDependencies,
  { accountId, applicationId, endpointId }: EndpointRequest,
): Promise<MessageInitShape<typeof EndpointSchema>> {
  const [endpoint] = await findEndpoints(sql, { accountId, applicationId, id: endpointId, limit: 1 })
  if (!endpoint) throw endpointNotFound(endpointId)
  return endpointMessage(endpoint)
}
