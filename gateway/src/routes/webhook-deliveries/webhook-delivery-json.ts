import { closedSets, readMember } from '@licensing/proto/closed-sets'
import type { Attempt, Delivery, DeliveryDetail } from '@licensing/proto/notifier'
import { z } from 'zod'
import { id } from '../../fields/id.ts'
import { isoText, isoTextOrNull, timestampText } from '../../fields/timestamp.ts'

export const deliveryStatus = z.enum(closedSets.deliveryStatus)

const common = {
  id: id('dlv'),
  event_id: id('evt'),
  event_type: z.string(),
  endpoint_id: id('whe'),
  status: deliveryStatus,
  attempt_count: z.int(),
  next_attempt_at: timestampText.nullable(),
  created_at: timestampText,
  last_response_code: z.int().nullable(),
  licence_id: id('lic')
    .nullable()
    .describe(
      'The licence of the event; null if the event is about none, and in deliveries of earlier releases.',
    ),
}

export const deliverySchema = z.strictObject(common).meta({ id: 'WebhookDelivery' })

export const attemptSchema = z
  .strictObject({
    attempt: z.int(),
    at: timestampText,
    response_code: z.int().nullable(),
    error: z.string().nullable(),
    duration_ms: z.int(),
    response_excerpt: z.string().nullable(),
  })
  .meta({ id: 'WebhookAttempt' })

export const deliveryDetailSchema = z
  .strictObject({
    ...common,
    payload: z.string().nullable().describe('The exact request body; null after 90 days.'),
    attempts: z.array(attemptSchema).describe('The newest 100 attempts, oldest first.'),
  })
  .meta({ id: 'WebhookDeliveryDetail' })

export function deliveryJson(delivery: Delivery): z.output<typeof deliverySchema> {
  return {
    id: delivery.id,
    event_id: delivery.eventId,
    event_type: delivery.eventType,
    endpoint_id: delivery.endpointId,
    status: readMember('deliveryStatus', delivery.status),
    attempt_count: delivery.attemptCount,
    next_attempt_at: isoTextOrNull(delivery.nextAttemptAt),
    created_at: isoText(delivery.createdAt),
    last_response_code: delivery.lastResponseCode ?? null,
    licence_id: delivery.licenceId ?? null,
  }
}

export function deliveryDetailJson(detail: DeliveryDetail): z.output<typeof deliveryDetailSchema> {
  return {
    ...deliveryJson(detail.delivery!),
    payload: detail.payload ?? null,
    attempts: detail.attempts.map(attemptJson),
  }
}

export function attemptJson(attempt: Attempt): z.output<typeof attemptSchema> {
  return {
    attempt: attempt.attempt,
    at: isoText(attempt.at),
    response_code: attempt.responseCode ?? null,
    error: attempt.error ?? null,
    duration_ms: attempt.durationMs,
    response_excerpt: attempt.responseExcerpt ?? null,
  }
}
