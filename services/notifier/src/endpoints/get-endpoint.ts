import type { MessageInitShape } from '@bufbuild/protobuf'
import type { EndpointRequest, EndpointSchema } from '@licensing/proto/notifier'
import type { NotifierDependencies } from '../dependencies.ts'
import { endpointMessage, endpointNotFound } from './endpoint.ts'
import { findEndpoints } from './endpoint-queries.ts'

export async function getEndpoint(
  { sql }: NotifierDependencies,
  { accountId, applicationId, endpointId }: EndpointRequest,
): Promise<MessageInitShape<typeof EndpointSchema>> {
  const [endpoint] = await findEndpoints(sql, { accountId, applicationId, id: endpointId, limit: 1 })
  if (!endpoint) throw endpointNotFound(endpointId)
  return endpointMessage(endpoint)
}
