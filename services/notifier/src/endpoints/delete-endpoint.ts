import type { MessageInitShape } from '@bufbuild/protobuf'
import type { EmptySchema } from '@bufbuild/protobuf/wkt'
import { transaction } from '@licensing/database/transaction'
import type { EndpointRequest } from '@licensing/proto/notifier'
import type { NotifierDependencies } from '../dependencies.ts'
import { disableEndpoint } from './disable-endpoint.ts'
import { endpointDisabled, endpointNotFound } from './endpoint.ts'
import { lockEndpoint, findEndpointRows } from './endpoint-queries.ts'

/** Interface 3.3: the endpoint is permanently disabled; its record stays. */
export async function deleteEndpoint(
  { sql, clock, dispatcher }: NotifierDependencies,
  request: EndpointRequest,
): Promise<MessageInitShape<typeof EmptySchema>> {
  const { endpointId } = request
  if (!(await lockEndpoint(sql, request))) throw endpointNotFound(endpointId)
  const changed = await transaction(sql, async (tx) => {
    if (!(await disableEndpoint(tx, endpointId, 'deleted', clock.now()))) throw endpointDisabled(endpointId)
    return findEndpointRows(tx, [endpointId])
  })
  dispatcher.endpointsChanged(changed)
  return {}
}
