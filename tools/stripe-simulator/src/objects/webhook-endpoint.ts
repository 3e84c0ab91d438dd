import { newId, platformApplication } from '../world/ids.ts'
import type { Metadata, WebhookEndpoint } from './wire.ts'

export type NewWebhookEndpoint = {
  created: number
  url: string
  enabledEvents: string[]
  apiVersion: string | null
  /** Events of the connected accounts, as against the platform's own. */
  connect: boolean
  description: string | null
  metadata: Metadata
}

export function newWebhookEndpoint(wanted: NewWebhookEndpoint): WebhookEndpoint {
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
