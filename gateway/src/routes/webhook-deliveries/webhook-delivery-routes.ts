import { z } from 'zod'
import { closedSets } from '@licensing/proto/closed-sets'
import { AttemptSchema, DeliverySchema } from '@licensing/proto/notifier'
import type { DeliveryDetail } from '@licensing/proto/notifier'
import { id, isId, reference } from '../../fields/id.ts'
import type { IdPrefix } from '../../fields/id.ts'
import { optional, storableText } from '../../fields/text.ts'
import { renderer } from '../../fields/messages.ts'
import { emptyPage, idCursor, limit, page, pageOf, positionCursor } from '../../fields/page.ts'
import { timestamp, timestampText } from '../../fields/time.ts'
import { vendorRoute, within } from '../../route.ts'
import type { CallIn, Route } from '../../route.ts'

const tag = 'Webhooks'
const all = '/v1/apps/{app_id}/webhook-deliveries'
const one = '/v1/apps/{app_id}/webhook-deliveries/{delivery_id}'

// The largest number of an attempt in the RPC's int32.
const maxAttempts = 2 ** 31 - 1

type DeliveryCall = CallIn<'delivery_id'>

function deliveryScope(call: DeliveryCall) {
  return { ...within(call), deliveryId: call.params.delivery_id }
}

function findDelivery(call: DeliveryCall) {
  return call.services.notifier.getDelivery(deliveryScope(call))
}

/** Whether rows with this id can exist. Without an id all rows match. */
function mayBe(prefix: IdPrefix, text: string | undefined): boolean {
  return text === undefined || isId(prefix, text)
}

const deliveryStatus = z.enum(closedSets.deliveryStatus)

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
    .describe('The licence of the event; null if the event is about no licence.'),
}

export const deliverySchema = z.strictObject(common).meta({ id: 'WebhookDelivery' })

const deliveryJson = renderer(DeliverySchema, deliverySchema)

const attemptSchema = z
  .strictObject({
    attempt: z.int(),
    at: timestampText,
    response_code: z.int().nullable(),
    error: z.string().nullable(),
    duration_ms: z.int(),
    response_excerpt: z.string().nullable(),
  })
  .meta({ id: 'WebhookAttempt' })

const attemptJson = renderer(AttemptSchema, attemptSchema)

const deliveryDetailSchema = z
  .strictObject({
    ...common,
    payload: z.string().nullable().describe('The exact request body; null after 90 days.'),
    attempts: z.array(attemptSchema).describe('The newest 100 attempts, oldest first.'),
  })
  .meta({ id: 'WebhookDeliveryDetail' })

export const webhookDeliveryRoutes: Route[] = [
  vendorRoute({
    method: 'GET',
    path: all,
    operationId: 'listWebhookDeliveries',
    tag,
    summary: 'List webhook deliveries',
    description: 'Filters can be combined.',
    scopes: ['admin', 'read'],
    query: z.strictObject({
      limit,
      cursor: idCursor('dlv'),
      endpoint: storableText.optional().describe('An endpoint’s id.'),
      type: storableText.optional().describe('An event type.'),
      status: deliveryStatus.optional(),
      event: storableText.optional().describe('An event’s id.'),
      licence: storableText.optional().describe('A licence’s id.'),
      since: timestamp.optional().describe('Created at this time or later.'),
      until: timestamp.optional().describe('Created before this time.'),
    }),
    answer: pageOf(deliverySchema),
    handle: async (call) => {
      const { endpoint, type, status, event, licence, since, until } = call.query
      if (!mayBe('whe', endpoint) || !mayBe('evt', event) || !mayBe('lic', licence))
        return { body: emptyPage }
      const { deliveries, hasMore } = await call.services.notifier.listDeliveries({
        ...within(call),
        limit: call.query.limit,
        beforeId: call.query.cursor,
        endpointId: endpoint,
        eventType: type,
        status,
        eventId: event,
        licenceId: licence,
        since,
        until,
      })
      return { body: page(deliveries.map(deliveryJson), hasMore, ({ id }) => id) }
    },
  }),
  vendorRoute({
    method: 'GET',
    path: one,
    operationId: 'getWebhookDelivery',
    tag,
    summary: 'Get a webhook delivery with its payload and attempts',
    scopes: ['admin', 'read'],
    answer: deliveryDetailSchema,
    handle: async (call) => ({ body: deliveryDetailJson(await findDelivery(call)) }),
  }),
  vendorRoute({
    method: 'GET',
    path: `${one}/attempts`,
    operationId: 'listWebhookAttempts',
    tag,
    summary: 'List the attempts of a webhook delivery, newest first',
    scopes: ['admin', 'read'],
    query: z.strictObject({ limit, cursor: positionCursor }),
    answer: pageOf(attemptSchema),
    lookUp: findDelivery,
    handle: async (call) => {
      const { attempts, hasMore } = await call.services.notifier.listAttempts({
        ...deliveryScope(call),
        limit: call.query.limit,
        // A larger cursor selects the same page as the largest number.
        beforeAttempt: Math.min(Number(call.query.cursor), maxAttempts),
      })
      return { body: page(attempts.map(attemptJson), hasMore, ({ attempt }) => String(attempt)) }
    },
  }),
  vendorRoute({
    method: 'POST',
    path: `${one}/replay`,
    operationId: 'replayWebhookDelivery',
    tag,
    summary: 'Replay a webhook delivery',
    description:
      'Sends the same event id and body again now, with a new signature, as one more attempt. With `endpoint_id`, creates a new delivery to that endpoint of the application: use it to send missed events of a disabled endpoint to its replacement.',
    scopes: ['admin'],
    body: z.strictObject({ endpoint_id: optional(reference('whe', 'webhook endpoint')) }),
    bodyOptional: true,
    status: 202,
    answer: z.strictObject({ id: id('dlv') }),
    errors: ['conflict', 'payload_expired'],
    lookUp: findDelivery,
    handle: async (call) => {
      const request = { ...deliveryScope(call), endpointId: call.body.endpoint_id }
      const { id } = await call.services.notifier.replayDelivery(request)
      return { body: { id } }
    },
  }),
]

function deliveryDetailJson(detail: DeliveryDetail): z.output<typeof deliveryDetailSchema> {
  return {
    ...deliveryJson(detail.delivery!),
    payload: detail.payload ?? null,
    attempts: detail.attempts.map(attemptJson),
  }
}
