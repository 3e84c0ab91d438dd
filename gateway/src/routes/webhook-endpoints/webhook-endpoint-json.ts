import { closedSets } from '@licensing/proto/closed-sets'
import { EndpointSchema } from '@licensing/proto/notifier'
import type { CreateEndpointResponse } from '@licensing/proto/notifier'
import { firstCharacters } from '@licensing/proto/text'
import { webhookEventTypes } from '@licensing/proto/webhook-events'
import { z } from 'zod'
import { id } from '../../fields/id.ts'
import { renderer } from '../../fields/messages.ts'
import { optional, webhookUrl } from '../../fields/text.ts'
import { timestamp, timestampText } from '../../fields/time.ts'

const secret = z
  .string()
  .nullable()
  .describe(
    'Signing secret, shown only once. It is `null` if the request is replayed: rotate the secret then.',
  )

const common = {
  id: id('whe'),
  url: z.string(),
  subscribed_events: z.string(),
  status: z.enum(closedSets.endpointStatus),
  created_at: timestampText,
}

const commonJson = renderer(EndpointSchema, z.strictObject(common))

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

export const webhookEndpointSchema = z
  .strictObject({
    ...common,
    disabled_at: timestampText.nullable(),
    disabled_reason: z.enum(closedSets.disabledReason).nullable(),
    failing_attempts: z
      .int()
      .describe('Failed attempts of the event with the most failures, if 4 or more; 0 otherwise.'),
    failing_since: timestampText.nullable().describe('First failed attempt of that event.'),
    health: healthSchema,
  })
  .meta({ id: 'WebhookEndpoint' })

export const webhookEndpointJson = renderer(EndpointSchema, webhookEndpointSchema)

export const newWebhookEndpointSchema = z
  .strictObject({ ...common, secret })
  .meta({ id: 'NewWebhookEndpoint' })

export const rotatedSecretSchema = z.strictObject({ id: id('whe'), secret }).meta({ id: 'RotatedSecret' })

const subscribedEvents = z
  .string()
  .meta({ examples: ['licence.revoked, licence.expired'] })
  .transform((list, context) => {
    if (list.trim() === '*') return '*'
    const types = list.split(',').map((type) => type.trim())
    const unknown = types.find((type) => !webhookEventTypes.includes(type))
    if (unknown === undefined) return [...new Set(types)].join(',')
    const problem =
      unknown === '' ? 'an event type is empty' : `there is no event type ${firstCharacters(unknown, 64)}`
    context.addIssue({ code: 'custom', message: `${problem}; known: *, ${webhookEventTypes.join(', ')}` })
    return z.NEVER
  })

export const createWebhookEndpointBody = z.strictObject({
  url: webhookUrl.describe(
    'An https URL that is publicly reachable. Private and internal addresses are refused.',
  ),
  subscribed_events: subscribedEvents.describe('`*`, or event types separated by commas.'),
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
  return { ...commonJson(response.endpoint!), secret: response.secret || null }
}
