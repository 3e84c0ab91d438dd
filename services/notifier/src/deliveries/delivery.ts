import { messageOf } from '@licensing/grpc/fields'
import { ServiceError } from '@licensing/grpc/errors'
import { readMember } from '@licensing/proto/closed-sets'
import type { DeliveryStatus } from '@licensing/proto/closed-sets'
import { AttemptSchema, DeliverySchema } from '@licensing/proto/notifier'
import type { Attempt as AttemptMessage, Delivery as DeliveryMessage } from '@licensing/proto/notifier'

/** A delivery as readers see it. A pending delivery of a disabled endpoint is failed. */
export interface Delivery {
  id: string
  event_id: string
  event_type: string
  endpoint_id: string
  status: DeliveryStatus
  attempt_count: number
  next_attempt_at: Date | null
  created_at: Date
  last_response_code: number | null
  licence_id: string | null
}

/** A delivery whose next attempt is to be made. */
export interface DueDelivery {
  id: string
  application_id: string
  endpoint_id: string
  event_id: string
  body: string
  trace_parent: string | null
  created_at: Date
  /** How many attempts were made so far, and how many of them the retry schedule made. */
  attempt_count: number
  scheduled_attempts: number
  /** A person requested this attempt: if it fails, it is not retried and does not count for the retry schedule. */
  is_replay: boolean
}

export interface Attempt {
  attempt: number
  at: Date
  response_code: number | null
  error: string | null
  duration_ms: number
  response_excerpt: string | null
}

export function deliveryMessage(delivery: Delivery): DeliveryMessage {
  return messageOf(DeliverySchema, { ...delivery, status: readMember('deliveryStatus', delivery.status) })
}

export function attemptMessage(attempt: Attempt): AttemptMessage {
  return messageOf(AttemptSchema, attempt)
}

export function deliveryNotFound(id: string): ServiceError {
  return new ServiceError('not_found', `there is no webhook delivery ${id}`)
}
