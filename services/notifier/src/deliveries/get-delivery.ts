import type { MessageInitShape } from '@bufbuild/protobuf'
import type { DeliveryDetailSchema, DeliveryRequest } from '@licensing/proto/notifier'
import type { NotifierDependencies } from '../dependencies.ts'
import { keptSince } from '../events/retention.ts'
import { attemptMessage, deliveryMessage, deliveryNotFound } from './delivery.ts'
import { listAttemptRows, findDeliveries, findPayload } from './delivery-log-queries.ts'

// Replays have no end: `listAttempts` pages them.
const newestAttempts = 100

export async function getDelivery(
  { sql, clock }: NotifierDependencies,
  { accountId, applicationId, deliveryId }: DeliveryRequest,
): Promise<MessageInitShape<typeof DeliveryDetailSchema>> {
  const id = deliveryId
  const [delivery] = await findDeliveries(sql, { accountId, applicationId, id, limit: 1 }, [])
  if (!delivery) throw deliveryNotFound(id)
  const [payload, attempts] = await Promise.all([
    findPayload(sql, { accountId, applicationId, id, keptSince: keptSince(clock.now()) }),
    listAttemptRows(sql, id, delivery.attempt_count, newestAttempts),
  ])
  return {
    delivery: deliveryMessage(delivery),
    ...(payload !== null && { payload }),
    attempts: attempts.toReversed().map(attemptMessage),
  }
}
