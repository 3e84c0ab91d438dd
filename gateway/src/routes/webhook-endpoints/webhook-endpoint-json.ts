import { closedSets } from '@licensing/proto/closed-sets'
import { EndpointSchema } from '@licensing/proto/notifier'
import type { CreateEndpointResponse, UpdateEndpointResponse } from '@licensing/proto/notifier'
import { webhookEventTypes } from '@licensing/proto/webhook-events'
import { z } from 'zod'
import { id } from '../../fields/id.ts'
import { renderer } from '../../fields/messages.ts'
import { optional } from '../../fields/text.ts'
import { timestamp, timestampText } from '../../fields/time.ts'
import { changedFields, createdFields, shownFields } from './webhook-endpoint-fields.ts'

const secret = z
  .string()
  .nullable()
  .describe(
    'Signing secret, shown only once. It is `null` if the request is replayed: rotate the secret then.',
  )

const healthSchema = z
  .strictObject({
    pending: z.int().describe('Deliveries that wait for their next attempt.'),
    last_success_at: timestampText.nullable(),
    last_failure_at: timestampText.nullable(),
    failing_since: timestampText
      .nullable()
      .describe('First failed attempt since the last success; null if the last attempt succeeded.'),
  })
  .meta({ id: 'WebhookEndpointHealth' })

const details = {
  id: id('whe'),
  ...shownFields,
  status: z.enum(closedSets.endpointStatus),
  created_at: timestampText,
  disabled_at: timestampText.nullable(),
  disabled_reason: z.enum(closedSets.disabledReason).nullable(),
  failing_attempts: z
    .int()
    .describe('Failed attempts of the event with the most failures, if 4 or more; 0 otherwise.'),
  failing_since: timestampText.nullable().describe('First failed attempt of that event.'),
  disables_at: timestampText
    .nullable()
    .describe(
      'When the endpoint is disabled if all attempts fail until then; null if nothing fails or it is paused.',
    ),
  health: healthSchema,
}

export const webhookEndpointSchema = z.strictObject(details).meta({ id: 'WebhookEndpoint' })

export const webhookEndpointJson = renderer(EndpointSchema, webhookEndpointSchema)

export const newWebhookEndpointSchema = z
  .strictObject({ ...details, secret })
  .meta({ id: 'CreatedWebhookEndpoint' })

export const updatedWebhookEndpointSchema = z
  .strictObject({
    ...details,
    secret: z
      .string()
      .optional()
      .describe('Signing secret, shown only in the answer to the change of `signature` that made it.'),
  })
  .meta({ id: 'UpdatedWebhookEndpoint' })

export const rotatedSecretSchema = z.strictObject({ id: id('whe'), secret }).meta({ id: 'RotatedSecret' })

export const createWebhookEndpointBody = z.strictObject(createdFields)

export const updateWebhookEndpointBody = z.strictObject(changedFields)

const maxOverlapHours = 168

export const rotateSecretBody = z.strictObject({
  overlap_hours: optional(
    z
      .int('must be a whole number')
      .min(0, 'must not be negative')
      .max(maxOverlapHours, `must be at most ${maxOverlapHours}`),
  ).describe('For how many hours attempts are signed with the former secret too. Default: 0.'),
})

const eventType = z
  .string()
  .refine((type) => webhookEventTypes.includes(type), `must be one of ${webhookEventTypes.join(', ')}`)
  .meta({ enum: [...webhookEventTypes] })

export const recoverBody = z.strictObject({
  since: timestamp.describe('Events created at this time or later.'),
  until: optional(timestamp).describe('Events created before this time. Default: now.'),
  types: optional(
    z.array(eventType).min(1, 'must have at least one type').max(100, 'must have at most 100 types'),
  ).describe('Default: all types that the endpoint is subscribed to.'),
})

export function newWebhookEndpointJson(
  response: CreateEndpointResponse,
): z.output<typeof newWebhookEndpointSchema> {
  return { ...webhookEndpointJson(response.endpoint!), secret: response.secret || null }
}

export function updatedWebhookEndpointJson({
  endpoint,
  secret,
}: UpdateEndpointResponse): z.output<typeof updatedWebhookEndpointSchema> {
  return { ...webhookEndpointJson(endpoint!), ...(secret !== undefined && { secret }) }
}
