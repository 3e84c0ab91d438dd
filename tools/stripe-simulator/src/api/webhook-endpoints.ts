import { findOwned } from '../flows/find.ts'
import type { WebhookEndpoint } from '../objects/wire.ts'
import { newId, platformApplication } from '../world/ids.ts'
import type { Call } from './call.ts'
import { endpointCreate, noParameters } from './parameters.ts'

/** Creates an endpoint. The simulator sends it no events: they go to the URL of its own setting. */
export function createWebhookEndpoint({ world, account, params }: Call): object {
  params.accept(endpointCreate)
  const url = params.url('url')
  if (url === undefined) throw params.missing('url')
  const enabledEvents = params.strings('enabled_events')
  if (enabledEvents.length === 0) throw params.missing('enabled_events')
  const endpoint: WebhookEndpoint = {
    id: newId('we'),
    object: 'webhook_endpoint',
    api_version: params.string('api_version') ?? null,
    // An endpoint for events of connected accounts has an application.
    application: params.boolean('connect') === true ? platformApplication : null,
    created: world.clock.now(),
    description: params.string('description') ?? null,
    enabled_events: enabledEvents,
    livemode: false,
    metadata: params.metadata('metadata'),
    secret: newId('whsec'),
    status: 'enabled',
    url,
  }
  return world.webhookEndpoints.add(account, endpoint)
}

export function deleteWebhookEndpoint({ world, account, id, params }: Call): object {
  params.accept(noParameters)
  findOwned(world.webhookEndpoints, 'webhook_endpoint', account, id)
  world.webhookEndpoints.forget(account, id)
  return { id, object: 'webhook_endpoint', deleted: true }
}
