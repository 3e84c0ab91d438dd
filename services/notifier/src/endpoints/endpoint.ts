import { ServiceError } from '@licensing/grpc/errors'
import { messageOf } from '@licensing/grpc/fields'
import type { DisabledReason, EndpointStatus } from '@licensing/proto/closed-sets'
import { EndpointHealthSchema, EndpointSchema } from '@licensing/proto/notifier'
import type { Endpoint as EndpointMessage } from '@licensing/proto/notifier'
import { firstCharacters } from '@licensing/proto/text'
import { webhookEventTypes } from '@licensing/proto/webhook-events'

/** An endpoint is shown as failing after this many failed attempts of one event. The index deliveries_failing has the same number. */
export const failingFrom = 4

export interface Endpoint {
  id: string
  url: string
  subscribed_events: Subscription
  status: EndpointStatus
  created_at: Date
  disabled_at: Date | null
  disabled_reason: DisabledReason | null
  /** The number of failed attempts of the pending event that has the most, if it is at least `failingFrom`. */
  failing_attempts: number | null
  failing_since: Date | null
  pending: bigint
  last_success_at: Date | null
  last_failure_at: Date | null
  /** When the first attempt after the last success failed, for any event. */
  health_failing_since: Date | null
}

export function endpointMessage(endpoint: Endpoint): EndpointMessage {
  const health = { ...endpoint, failing_since: endpoint.health_failing_since }
  return messageOf(EndpointSchema, {
    ...endpoint,
    subscribed_events: writeSubscription(endpoint.subscribed_events),
    failing_attempts: endpoint.failing_attempts ?? 0,
    health: messageOf(EndpointHealthSchema, health),
  })
}

export function endpointNotFound(id: string): ServiceError {
  return new ServiceError('not_found', `there is no webhook endpoint ${id}`)
}

/** A disabled endpoint cannot be resumed (docs/guides/webhooks.md, "Register a webhook endpoint"). */
export function endpointDisabled(id: string, remedy = 'register a new endpoint'): ServiceError {
  return new ServiceError('conflict', `webhook endpoint ${id} is permanently disabled: ${remedy}`, {
    members: { current: 'disabled', allowed: [] },
  })
}

/** The event types that an endpoint is subscribed to; null for all types, including future ones. */
export type Subscription = string[] | null

/** Reads `*` or types separated by commas. @returns `problem` if the text is neither */
export function readSubscription(text: string): { types: Subscription } | { problem: string } {
  if (text.trim() === '*') return { types: null }
  const types = text.split(',').map((type) => type.trim())
  if (types.includes('')) return { problem: 'must be * or event types separated by commas' }
  const unknown = types.find((type) => !webhookEventTypes.includes(type))
  if (unknown !== undefined) return { problem: `has an unknown event type: ${firstCharacters(unknown, 100)}` }
  return { types: [...new Set(types)] }
}

function writeSubscription(types: Subscription): string {
  return types === null ? '*' : types.join(',')
}

export function isSubscribed(types: Subscription, type: string): boolean {
  return types === null || types.includes(type)
}
