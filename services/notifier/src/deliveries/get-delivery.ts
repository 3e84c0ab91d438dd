import type { MessageInitShape } from '@bufbuild/protobuf'
import type { DeliveryDetailSchema, DeliveryRequest } from '@licensing/proto/notifier'
import type { NotifierDeps } from '../dependencies.ts'
import { keptSince } from '../events/retention.ts'
import { attemptMessage, deliveryMessage, deliveryNotFound } from './delivery.ts'
import { readAttempts, readDeliveries, readPayload } from './delivery-log.ts'

export async function getDelivery(
  { sql, clock }: NotifierDeps,
  { accountId, applicationId, deliveryId }: DeliveryRequest,
): Promise<MessageInitShape<typeof DeliveryDetailSchema>> {
  const id = deliveryId
  const [delivery] = await readDeliveries(sql, { accountId, applicationId, id, limit: 1 }, [])
  if (!delivery) throw deliveryNotFound(id)
  const [payload, attempts] = await Promise.all([
    readPayload(sql, { accountId, applicationId, id, keptSince: keptSince(clock.now()) }),
    readAttempts(sql, id, delivery.attemptCount),
  ])
  return {
    delivery: deliveryMessage(delivery),
    ...(payload !== null && { payload }),
    attempts: attempts.map(attemptMessage),
  }
}
