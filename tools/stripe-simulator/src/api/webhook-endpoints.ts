import { findOwned } from '../flows/find.ts'
import { invalidRequest } from '../http/stripe-error.ts'
import type { Metadata, WebhookEndpoint } from '../objects/wire.ts'
import { newId, platformApplication } from '../world/ids.ts'
import { page, type Call } from './call.ts'
import { endpointCreate, endpointList, endpointUpdate, noParameters } from './parameters.ts'

/** Creates an endpoint. Only this answer contains the secret. */
export function createWebhookEndpoint({ world, account, params }: Call): object {
  params.accept(endpointCreate)
  const url = params.url('url')
  if (url === undefined) throw params.missing('url')
  const enabledEvents = params.strings('enabled_events')
  if (enabledEvents.length === 0) throw params.missing('enabled_events')
  const apiVersion = params.string('api_version') ?? null
  if (apiVersion !== null && !/^\d{4}-\d\d-\d\d(\.[a-z]+)?$/.test(apiVersion)) {
    throw invalidRequest(`Invalid API version: ${apiVersion}`, { param: 'api_version' })
  }
  const endpoint = newWebhookEndpoint({
    created: world.clock.now(),
    url,
    enabledEvents,
    apiVersion,
    connect: params.boolean('connect') ?? false,
    description: params.string('description') ?? null,
    metadata: params.metadata('metadata'),
  })
  return world.webhookEndpoints.add(account, endpoint)
}

export function getWebhookEndpoint({ world, account, id, params }: Call): object {
  params.accept(noParameters)
  return withoutSecret(findOwned(world.webhookEndpoints, 'webhook_endpoint', account, id))
}

export function listWebhookEndpoints({ world, account, params }: Call): object {
  params.accept(endpointList)
  return page('/v1/webhook_endpoints', params, world.webhookEndpoints.list(account).map(withoutSecret))
}

export function updateWebhookEndpoint({ world, account, id, params }: Call): object {
  params.accept(endpointUpdate)
  const endpoint = findOwned(world.webhookEndpoints, 'webhook_endpoint', account, id)
  const disabled = params.boolean('disabled')
  if (disabled !== undefined) endpoint.status = disabled ? 'disabled' : 'enabled'
  if (params.has('enabled_events')) endpoint.enabled_events = params.strings('enabled_events')
  if (params.has('metadata')) endpoint.metadata = params.metadata('metadata')
  endpoint.description = params.string('description') ?? endpoint.description
  endpoint.url = params.url('url') ?? endpoint.url
  return withoutSecret(endpoint)
}

export function deleteWebhookEndpoint({ world, account, id, params }: Call): object {
  params.accept(noParameters)
  findOwned(world.webhookEndpoints, 'webhook_endpoint', account, id)
  world.webhookEndpoints.forget(account, id)
  return { id, object: 'webhook_endpoint', deleted: true }
}

function withoutSecret({ secret: _secret, ...endpoint }: WebhookEndpoint): WebhookEndpoint {
  return endpoint
}

export type NewWebhookEndpoint = {
  created: number
  url: string
  enabledEvents: string[]
  apiVersion: string | null
  /** Whether the endpoint gets events of connected accounts, instead of events of the platform itself. */
  connect: boolean
  description: string | null
  metadata: Metadata
}

function newWebhookEndpoint(wanted: NewWebhookEndpoint): WebhookEndpoint {
  return {
    id: newId('we'),
    object: 'webhook_endpoint',
    api_version: wanted.apiVersion,
    application: wanted.connect ? platformApplication : null,
    created: wanted.created,
    description: wanted.description,
    enabled_events: wanted.enabledEvents,
    livemode: false,
    metadata: wanted.metadata,
    secret: newId('whsec'),
    status: 'enabled',
    url: wanted.url,
  }
}
