import { closedSets, readMember } from '@licensing/proto/closed-sets'
import type { CreateEndpointResponse, Endpoint } from '@licensing/proto/notifier'
import { firstCharacters } from '@licensing/proto/text'
import { webhookEventTypes } from '@licensing/proto/webhook-events'
import { z } from 'zod'
import { id } from '../../fields/id.ts'
import { isoText, isoTextOrNull, timestampText } from '../../fields/timestamp.ts'
import { webhookUrl } from '../../fields/web-address.ts'

const secret = z.string().describe('Signs deliveries. Shown here and never again.')

const common = {
  id: id('whe'),
  url: z.string(),
  subscribed_events: z.string(),
  status: z.enum(closedSets.endpointStatus),
  created_at: timestampText,
}

export const webhookEndpointSchema = z
  .strictObject({
    ...common,
    disabled_at: timestampText.nullable(),
    disabled_reason: z.enum(closedSets.disabledReason).nullable(),
    failing_attempts: z
      .int()
      .describe('Attempts made of the event that fails most, from its 4th on; else 0.'),
    failing_since: timestampText.nullable(),
  })
  .meta({ id: 'WebhookEndpoint' })

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
  url: webhookUrl.describe('https, publicly reachable; private and internal addresses are refused.'),
  subscribed_events: subscribedEvents.describe('`*`, or event types separated by commas.'),
})

export function webhookEndpointJson(endpoint: Endpoint): z.output<typeof webhookEndpointSchema> {
  return {
    ...commonJson(endpoint),
    disabled_at: isoTextOrNull(endpoint.disabledAt),
    disabled_reason:
      endpoint.disabledReason === undefined ? null : readMember('disabledReason', endpoint.disabledReason),
    failing_attempts: endpoint.failingAttempts,
    failing_since: isoTextOrNull(endpoint.failingSince),
  }
}

export function newWebhookEndpointJson(
  response: CreateEndpointResponse,
): z.output<typeof newWebhookEndpointSchema> {
  return { ...commonJson(response.endpoint!), secret: response.secret }
}

function commonJson(endpoint: Endpoint) {
  return {
    id: endpoint.id,
    url: endpoint.url,
    subscribed_events: endpoint.subscribedEvents,
    status: readMember('endpointStatus', endpoint.status),
    created_at: isoText(endpoint.createdAt),
  }
}
