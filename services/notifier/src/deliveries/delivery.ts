import type { MessageInitShape } from '@bufbuild/protobuf'
import { timestampFromDate } from '@bufbuild/protobuf/wkt'
import { ServiceError } from '@licensing/grpc/errors'
import { readMember } from '@licensing/proto/closed-sets'
import type { DeliveryStatus } from '@licensing/proto/closed-sets'
import type { AttemptSchema, DeliverySchema } from '@licensing/proto/notifier'

/** A delivery as a reader sees it: what waits for a disabled endpoint has failed, marked so already or not. */
export interface Delivery {
  id: string
  eventId: string
  eventType: string
  endpointId: string
  status: DeliveryStatus
  attemptCount: number
  nextAttemptAt: Date | null
  createdAt: Date
  lastResponseCode: number | null
}

export interface Attempt {
  attempt: number
  at: Date
  responseCode: number | null
  error: string | null
  durationMs: number
  responseExcerpt: string | null
}

export function deliveryMessage(delivery: Delivery): MessageInitShape<typeof DeliverySchema> {
  const { nextAttemptAt, lastResponseCode } = delivery
  return {
    id: delivery.id,
    eventId: delivery.eventId,
    eventType: delivery.eventType,
    endpointId: delivery.endpointId,
    status: readMember('deliveryStatus', delivery.status),
    attemptCount: delivery.attemptCount,
    ...(nextAttemptAt && { nextAttemptAt: timestampFromDate(nextAttemptAt) }),
    createdAt: timestampFromDate(delivery.createdAt),
    ...(lastResponseCode !== null && { lastResponseCode }),
  }
}

export function attemptMessage(attempt: Attempt): MessageInitShape<typeof AttemptSchema> {
  const { responseCode, error, responseExcerpt } = attempt
  return {
    attempt: attempt.attempt,
    at: timestampFromDate(attempt.at),
    ...(responseCode !== null && { responseCode }),
    ...(error !== null && { error }),
    durationMs: attempt.durationMs,
    ...(responseExcerpt !== null && { responseExcerpt }),
  }
}

export function deliveryNotFound(id: string): ServiceError {
  return new ServiceError('not_found', `there is no webhook delivery ${id}`)
}
