import { ServiceError } from '@licensing/grpc/errors'
import { messageOf } from '@licensing/grpc/fields'
import { readMember } from '@licensing/proto/closed-sets'
import type { DisabledReason, EndpointStatus, WebhookSignature } from '@licensing/proto/closed-sets'
import { EndpointHealthSchema, EndpointSchema } from '@licensing/proto/notifier'
import type { Endpoint as EndpointMessage } from '@licensing/proto/notifier'
import { firstCharacters } from '@licensing/proto/text'
import { webhookEventTypes } from '@licensing/proto/webhook-events'

/** An endpoint is shown as failing after this many failed attempts of one event. */
export const failingFrom = 4

/** The columns of the fields that a vendor gives an endpoint. */
export interface FieldColumns {
  url: string
  subscribed_events: Subscription
  description: string | null
  header_names: string[] | null
  plans: string[] | null
  paused: boolean
  signature: WebhookSignature
}

export interface Endpoint extends FieldColumns {
  id: string
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
  /** When the endpoint is disabled if all attempts fail until then. */
  disables_at: Date | null
}

/** An endpoint to which nothing was sent yet. */
export const newEndpoint = {
  status: 'enabled',
  disabled_at: null,
  disabled_reason: null,
  failing_attempts: null,
  failing_since: null,
  pending: 0n,
  last_success_at: null,
  last_failure_at: null,
  health_failing_since: null,
  disables_at: null,
} as const

export function endpointMessage(endpoint: Endpoint): EndpointMessage {
  const health = { ...endpoint, failing_since: endpoint.health_failing_since }
  return messageOf(EndpointSchema, {
    ...endpoint,
    subscribed_events: writeSubscription(endpoint.subscribed_events),
    headers: shownHeaders(endpoint.header_names),
    plans: endpoint.plans ?? [],
    signature: readMember('webhookSignature', endpoint.signature),
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

/** A paused endpoint takes no new requests to send something (docs/guides/webhooks.md, "Pause an endpoint"). */
export function endpointPaused(id: string): ServiceError {
  return new ServiceError('conflict', `webhook endpoint ${id} is paused: resume it first`, {
    members: { current: 'paused', allowed: ['resume'] },
  })
}

/** @throws ServiceError if nothing may be requested to be sent to the endpoint */
export function checkSendable(
  { id, status, paused }: Pick<Endpoint, 'id' | 'status' | 'paused'>,
  remedy?: string,
): void {
  if (status === 'disabled') throw endpointDisabled(id, remedy)
  if (paused) throw endpointPaused(id)
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

export function writeSubscription(types: Subscription): string {
  return types === null ? '*' : types.join(',')
}

/** Whether an endpoint gets an event. The plan is that of the event's licence; null if the event is about no licence. */
export function isSubscribed(
  { subscribed_events: types, plans }: Pick<FieldColumns, 'subscribed_events' | 'plans'>,
  event: { type: string; licence_plan_id: string | null },
): boolean {
  if (types !== null && !types.includes(event.type)) return false
  return plans === null || event.licence_plan_id === null || plans.includes(event.licence_plan_id)
}

/** Header names as the API shows them: each with the value null. */
export function shownHeaders(names: string[] | null): Record<string, null> | null {
  return names && Object.fromEntries(names.map((name) => [name, null]))
}
