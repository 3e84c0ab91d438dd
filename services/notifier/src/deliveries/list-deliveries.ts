import type { MessageInitShape } from '@bufbuild/protobuf'
import { invalid } from '@licensing/grpc/errors'
import { closedSets, isMember } from '@licensing/proto/closed-sets'
import type { ListDeliveriesRequest, ListDeliveriesResponseSchema } from '@licensing/proto/notifier'
import type { NotifierDeps } from '../deps.ts'
import { hasEndpoint } from '../endpoints/endpoint-queries.ts'
import { pageSize, toPage } from '../page.ts'
import { deliveryMessage } from './delivery.ts'
import { readDeliveries, readLeftovers } from './delivery-log.ts'

export async function listDeliveries(
  { sql }: NotifierDeps,
  request: ListDeliveriesRequest,
): Promise<MessageInitShape<typeof ListDeliveriesResponseSchema>> {
  const { accountId, applicationId, endpointId, eventType, status, beforeId } = request
  if (status !== undefined && !isMember('deliveryStatus', status)) {
    throw invalid('/status', `must be one of ${closedSets.deliveryStatus.join(', ')}`)
  }
  const size = pageSize(request.limit)
  // An endpoint of somebody else may have any number of deliveries, none of which is to be looked through.
  if (endpointId !== undefined && !(await hasEndpoint(sql, { accountId, applicationId, endpointId }))) {
    return { deliveries: [], hasMore: false }
  }
  const leftovers = status === undefined ? [] : await readLeftovers(sql, applicationId)
  const filter = {
    accountId,
    applicationId,
    ...(endpointId !== undefined && { endpointId }),
    ...(eventType !== undefined && { eventType }),
    ...(status !== undefined && { status }),
    ...(beforeId && { beforeId }),
    limit: size + 1,
  }
  const page = toPage(await readDeliveries(sql, filter, leftovers), size)
  return { deliveries: page.rows.map(deliveryMessage), hasMore: page.hasMore }
}
