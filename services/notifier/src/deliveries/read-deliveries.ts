import { timestampDate } from '@bufbuild/protobuf/wkt'
import { pageOf, rowsFor } from '@licensing/database/page'
import { invalid } from '@licensing/grpc/errors'
import { closedSets, isMember } from '@licensing/proto/closed-sets'
import type { Handler } from '../dependencies.ts'
import { findEndpointRow } from '../endpoints/endpoint-queries.ts'
import {
  findDeliveries,
  findEndpointsToCleanUp,
  listAttemptRows,
  findPayload,
} from './delivery-log-queries.ts'
import { deliveryMessage, attemptMessage, deliveryNotFound } from './delivery.ts'

export const listDeliveries: Handler<'listDeliveries'> = async ({ sql }, request) => {
  const { accountId, applicationId, endpointId, status, since, until } = request
  if (status !== undefined && !isMember('deliveryStatus', status)) {
    throw invalid('/status', `must be one of ${closedSets.deliveryStatus.join(', ')}`)
  }
  // An endpoint of another account may have any number of deliveries. The query would read all of them and return none.
  if (endpointId !== undefined && !(await findEndpointRow(sql, { accountId, applicationId, endpointId }))) {
    return { deliveries: [], hasMore: false }
  }
  const disabled = status === undefined ? [] : await findEndpointsToCleanUp(sql, applicationId)
  const filter = {
    ...request,
    status,
    since: since && timestampDate(since),
    until: until && timestampDate(until),
    beforeId: request.beforeId || undefined,
    limit: rowsFor(request.limit),
  }
  const { page, hasMore } = pageOf(await findDeliveries(sql, filter, disabled), request.limit)
  return { deliveries: page.map(deliveryMessage), hasMore }
}

// There may be any number of replays: `listAttempts` has pages of all attempts.
const newestAttempts = 100

export const getDelivery: Handler<'getDelivery'> = async (
  { sql, keptSince },
  { accountId, applicationId, deliveryId },
) => {
  const id = deliveryId
  const [delivery] = await findDeliveries(sql, { accountId, applicationId, id, limit: 1 }, [])
  if (!delivery) throw deliveryNotFound(id)
  const [payload, attempts] = await Promise.all([
    findPayload(sql, { accountId, applicationId, id, keptSince: keptSince() }),
    listAttemptRows(sql, id, delivery.attempt_count, newestAttempts),
  ])
  return {
    delivery: deliveryMessage(delivery),
    ...(payload !== null && { payload }),
    attempts: attempts.toReversed().map(attemptMessage),
  }
}

export const listAttempts: Handler<'listAttempts'> = async (
  { sql },
  { accountId, applicationId, deliveryId, limit, beforeAttempt },
) => {
  const filter = { accountId, applicationId, id: deliveryId, limit: 1 }
  const [delivery] = await findDeliveries(sql, filter, [])
  if (!delivery) throw deliveryNotFound(deliveryId)
  const last = beforeAttempt > 0 ? beforeAttempt - 1 : delivery.attempt_count
  const rows = await listAttemptRows(sql, deliveryId, last, rowsFor(limit))
  const { page, hasMore } = pageOf(rows, limit)
  return { attempts: page.map(attemptMessage), hasMore }
}
