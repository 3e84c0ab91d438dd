import type { MessageInitShape } from '@bufbuild/protobuf'
import { timestampFromDate } from '@bufbuild/protobuf/wkt'
import { ServiceError } from '@licensing/grpc/errors'
import { readMember } from '@licensing/proto/closed-sets'
import type { DisabledReason, EndpointStatus } from '@licensing/proto/closed-sets'
import type { EndpointSchema } from '@licensing/proto/notifier'
import type { Subscription } from './subscription.ts'
import { writeSubscription } from './subscription.ts'

export interface Endpoint {
  id: string
  url: string
  subscribedEvents: Subscription
  status: EndpointStatus
  createdAt: Date
  disabledAt: Date | null
  disabledReason: DisabledReason | null
  /** Of the event that has failed most often and still is retried, from the 4th failure on. */
  failingAttempts: number | null
  failingSince: Date | null
}

export function endpointMessage(endpoint: Endpoint): MessageInitShape<typeof EndpointSchema> {
  const { disabledAt, disabledReason, failingSince } = endpoint
  return {
    id: endpoint.id,
    url: endpoint.url,
    subscribedEvents: writeSubscription(endpoint.subscribedEvents),
    status: readMember('endpointStatus', endpoint.status),
    createdAt: timestampFromDate(endpoint.createdAt),
    ...(disabledAt && { disabledAt: timestampFromDate(disabledAt) }),
    ...(disabledReason && { disabledReason: readMember('disabledReason', disabledReason) }),
    failingAttempts: endpoint.failingAttempts ?? 0,
    ...(failingSince && { failingSince: timestampFromDate(failingSince) }),
  }
}

export function endpointNotFound(id: string): ServiceError {
  return new ServiceError('not_found', `there is no webhook endpoint ${id}`)
}

/** Interface 3.3: a disabled endpoint cannot be resumed. */
export function endpointDisabled(id: string, remedy = 'register a new endpoint'): ServiceError {
  return new ServiceError('conflict', `webhook endpoint ${id} is permanently disabled: ${remedy}`, {
    members: { current: 'disabled', allowed: [] },
  })
}
