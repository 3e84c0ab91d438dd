import type { MessageInitShape } from '@bufbuild/protobuf'
import { timestampDate } from '@bufbuild/protobuf/wkt'
import { pageOf, rowsFor } from '@licensing/database/page'
import { invalid } from '@licensing/grpc/errors'
import { closedSets, isMember } from '@licensing/proto/closed-sets'
import type { ListDeliveriesRequest, ListDeliveriesResponseSchema } from '@licensing/proto/notifier'
import type { NotifierDependencies } from '../dependencies.ts'
import { hasEndpoint } from '../endpoints/endpoint-queries.ts'
import { deliveryMessage } from './delivery.ts'
import { findDeliveries, listLeftovers } from './delivery-log-queries.ts'

export async function listDeliveries(
  { sql }: NotifierDependencies,
  request: ListDeliveriesRequest,
): Promise<MessageInitShape<typeof ListDeliveriesResponseSchema>> {
  const { accountId, applicationId, endpointId, eventType, status, eventId, licenceId } = request
  const { beforeId, since, until } = request
  if (status !== undefined && !isMember('deliveryStatus', status)) {
    throw invalid('/status', `must be one of ${closedSets.deliveryStatus.join(', ')}`)
  }
  // An endpoint of somebody else may have any number of deliveries, none of which is to be looked through.
  if (endpointId !== undefined && !(await hasEndpoint(sql, { accountId, applicationId, endpointId }))) {
    return { deliveries: [], hasMore: false }
  }
  const leftovers = status === undefined ? [] : await listLeftovers(sql, applicationId)
  const filter = {
    accountId,
    applicationId,
    ...(endpointId !== undefined && { endpointId }),
    ...(eventType !== undefined && { eventType }),
    ...(status !== undefined && { status }),
    ...(eventId !== undefined && { eventId }),
    ...(licenceId !== undefined && { licenceId }),
    ...(since && { since: timestampDate(since) }),
    ...(until && { until: timestampDate(until) }),
    ...(beforeId && { beforeId }),
    limit: rowsFor(request.limit),
  }
  const { page, hasMore } = pageOf(await findDeliveries(sql, filter, leftovers), request.limit)
  return { deliveries: page.map(deliveryMessage), hasMore }
}
