import { invalid, ServiceError } from '@licensing/grpc/errors'
import { EndpointFieldsSchema } from '@licensing/proto/notifier'
import { z } from 'zod'
import { id } from '../../fields/id.ts'
import { fieldsFrom } from '../../fields/messages.ts'
import { idCursor, limit, page, pageOf } from '../../fields/page.ts'
import { vendorRoute, within } from '../../route.ts'
import type { CallIn, Route } from '../../route.ts'
import {
  createWebhookEndpointBody,
  newWebhookEndpointJson,
  newWebhookEndpointSchema,
  recoverBody,
  rotatedSecretSchema,
  rotateSecretBody,
  updatedWebhookEndpointJson,
  updatedWebhookEndpointSchema,
  updateWebhookEndpointBody,
  webhookEndpointJson,
  webhookEndpointSchema,
} from './webhook-endpoint-json.ts'

const tag = 'Webhooks'
const all = '/v1/apps/{app_id}/webhook-endpoints'
const one = '/v1/apps/{app_id}/webhook-endpoints/{endpoint_id}'

// The notifier resolves the host name for up to 3 seconds before it accepts the endpoint.
const registerMs = 8_000
// A recovery creates up to 100,000 deliveries, and may have to wait for another recovery.
const recoverMs = 40_000

type EndpointCall = CallIn<'endpoint_id'>

function endpointScope(call: EndpointCall) {
  return { ...within(call), endpointId: call.params.endpoint_id }
}

function findEndpoint(call: EndpointCall) {
  return call.services.notifier.getEndpoint(endpointScope(call))
}

/** The notifier does not know plans. Plans are never deleted, so nothing can change between the check and the write. */
async function checkPlans(call: CallIn, planIds: readonly string[] | null | undefined): Promise<void> {
  const checks = (planIds ?? []).map(async (planId, at) => {
    try {
      await call.services.catalog.getPlan({ ...within(call), planId })
    } catch (error) {
      if (!(error instanceof ServiceError) || error.code !== 'not_found') throw error
      throw invalid(`/plans/${at}`, `there is no plan ${planId} in the application`)
    }
  })
  await Promise.all(checks)
}

export const webhookEndpointRoutes: Route[] = [
  vendorRoute({
    method: 'POST',
    path: all,
    operationId: 'createWebhookEndpoint',
    tag,
    summary: 'Register a webhook endpoint',
    scopes: ['admin'],
    body: createWebhookEndpointBody,
    status: 201,
    answer: newWebhookEndpointSchema,
    errors: ['quota_exceeded'],
    handle: async (call) => {
      await checkPlans(call, call.body.plans)
      const { fields } = fieldsFrom(EndpointFieldsSchema, call.body)
      const request = { ...within(call), fields }
      const response = await call.services.notifier.createEndpoint(request, { timeoutMs: registerMs })
      return { body: newWebhookEndpointJson(response) }
    },
  }),
  vendorRoute({
    method: 'GET',
    path: all,
    operationId: 'listWebhookEndpoints',
    tag,
    summary: 'List webhook endpoints, including disabled ones',
    scopes: ['admin', 'read'],
    query: z.strictObject({ limit, cursor: idCursor('whe') }),
    answer: pageOf(webhookEndpointSchema),
    handle: async (call) => {
      const { endpoints, hasMore } = await call.services.notifier.listEndpoints({
        ...within(call),
        limit: call.query.limit,
        beforeId: call.query.cursor,
      })
      return { body: page(endpoints.map(webhookEndpointJson), hasMore, ({ id }) => id) }
    },
  }),
  vendorRoute({
    method: 'GET',
    path: one,
    operationId: 'getWebhookEndpoint',
    tag,
    summary: 'Get a webhook endpoint',
    scopes: ['admin', 'read'],
    answer: webhookEndpointSchema,
    handle: async (call) => ({ body: webhookEndpointJson(await findEndpoint(call)) }),
  }),
  vendorRoute({
    method: 'PATCH',
    path: one,
    operationId: 'updateWebhookEndpoint',
    tag,
    summary: 'Change a webhook endpoint',
    description:
      'Deliveries that have not been sent use the new address, headers and signature from their next attempt on. They are sent also if the event types or plans were narrowed. Events that were recorded before a subscription was widened are not sent: recover them.',
    scopes: ['admin'],
    body: updateWebhookEndpointBody,
    answer: updatedWebhookEndpointSchema,
    errors: ['conflict'],
    lookUp: findEndpoint,
    handle: async (call) => {
      await checkPlans(call, call.body.plans)
      const request = { ...endpointScope(call), ...fieldsFrom(EndpointFieldsSchema, call.body) }
      const response = await call.services.notifier.updateEndpoint(request, { timeoutMs: registerMs })
      return { body: updatedWebhookEndpointJson(response) }
    },
  }),
  vendorRoute({
    method: 'DELETE',
    path: one,
    operationId: 'deleteWebhookEndpoint',
    tag,
    summary: 'Disable a webhook endpoint permanently',
    description: 'The endpoint stays listed as disabled. Its pending deliveries are marked as failed.',
    scopes: ['admin'],
    errors: ['conflict'],
    lookUp: findEndpoint,
    handle: async (call) => {
      await call.services.notifier.deleteEndpoint(endpointScope(call))
      return {}
    },
  }),
  vendorRoute({
    method: 'POST',
    path: `${one}/rotate-secret`,
    operationId: 'rotateWebhookSecret',
    tag,
    summary: 'Rotate the signing secret',
    description:
      'All attempts from now on are signed with the new secret, and for `overlap_hours` with the former one too.',
    scopes: ['admin'],
    body: rotateSecretBody,
    bodyOptional: true,
    answer: rotatedSecretSchema,
    errors: ['conflict'],
    lookUp: findEndpoint,
    handle: async (call) => {
      const request = { ...endpointScope(call), overlapHours: call.body.overlap_hours ?? 0 }
      const { id, secret } = await call.services.notifier.rotateSecret(request)
      return { body: { id, secret: secret || null } }
    },
  }),
  vendorRoute({
    method: 'POST',
    path: `${one}/test`,
    operationId: 'sendTestEvent',
    tag,
    summary: 'Send a test event to a webhook endpoint',
    description: 'Sends a `webhook.test` event, whatever event types the endpoint is subscribed to.',
    scopes: ['admin'],
    status: 202,
    answer: z.strictObject({ event_id: id('evt') }),
    errors: ['conflict'],
    lookUp: findEndpoint,
    handle: async (call) => {
      const { eventId } = await call.services.notifier.sendTestEvent(endpointScope(call))
      return { body: { event_id: eventId } }
    },
  }),
  vendorRoute({
    method: 'POST',
    path: `${one}/recover`,
    operationId: 'recoverWebhookEndpoint',
    tag,
    summary: 'Recover missed events of a webhook endpoint',
    description:
      'Creates a new delivery for every event of the period that was not delivered to this endpoint and is not pending there. The deliveries have the usual retry schedule. At most 100,000 events. Events older than 90 days are skipped, because their payload was deleted. Repeating the call sends nothing twice.',
    scopes: ['admin'],
    body: recoverBody,
    status: 202,
    answer: z.strictObject({ deliveries: z.int().describe('Number of deliveries created.') }),
    errors: ['conflict'],
    lookUp: findEndpoint,
    handle: async (call) => {
      const { since, until, types } = call.body
      const request = { ...endpointScope(call), since, until, types }
      const { deliveries } = await call.services.notifier.recoverEndpoint(request, { timeoutMs: recoverMs })
      return { body: { deliveries: Number(deliveries) } }
    },
  }),
]
