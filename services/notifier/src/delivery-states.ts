import { closedSets } from '@licensing/proto/closed-sets'
import type { DeliveryStatus } from '@licensing/proto/closed-sets'

/** An event in the life of a delivery. */
export type DeliveryOutcome =
  /** An attempt got a 2xx response. */
  | 'acknowledged'
  /** An attempt of the retry schedule failed, and the schedule has another one. */
  | 'attempt_failed'
  /** The last attempt of the retry schedule failed. */
  | 'last_attempt_failed'
  /** A replay failed, or an attempt whose sender had lost its claim: the retry schedule does not count it. */
  | 'extra_attempt_failed'
  /** Nothing more is sent: the endpoint is disabled, or the payload is past retention. */
  | 'abandoned'

export interface Transition {
  to: DeliveryStatus
  /** The change of the retry schedule's next attempt. */
  retry: 'cancelled' | 'scheduled' | 'unchanged'
}

const delivered = { to: 'delivered', retry: 'cancelled' } as const
const failed = { to: 'failed', retry: 'cancelled' } as const

/**
 * The lifecycle of a delivery: outcome × status → next status. A delivered event stays delivered, whatever a later attempt
 * gets as its response. A delivery is failed only as long as no attempt is acknowledged.
 */
export const deliveryTransitions = {
  acknowledged: { pending: delivered, delivered, failed: delivered },
  attempt_failed: { pending: { to: 'pending', retry: 'scheduled' }, delivered, failed },
  last_attempt_failed: { pending: failed, delivered, failed },
  extra_attempt_failed: {
    pending: { to: 'pending', retry: 'unchanged' },
    delivered: { to: 'delivered', retry: 'unchanged' },
    failed: { to: 'failed', retry: 'unchanged' },
  },
  abandoned: { pending: failed, delivered, failed },
} as const satisfies Record<DeliveryOutcome, Record<DeliveryStatus, Transition>>

/** The outcome of an attempt for its delivery. `isLast`: the retry schedule has no further attempt. */
export function outcomeOf(
  attempt: { isDelivered: boolean; isReplay: boolean; isLast: boolean },
  hasClaim: boolean,
): DeliveryOutcome {
  if (attempt.isDelivered) return 'acknowledged'
  if (attempt.isReplay || !hasClaim) return 'extra_attempt_failed'
  return attempt.isLast ? 'last_attempt_failed' : 'attempt_failed'
}

/** The statuses in which the retry schedule may still attempt a delivery. */
export const pendingStatuses = closedSets.deliveryStatus.filter(
  (status) => deliveryTransitions.attempt_failed[status].retry === 'scheduled',
)

/** These statuses in SQL: literals, because the condition of an index has them. */
export const inPending = `in (${pendingStatuses.map((status) => `'${status}'`).join(', ')})`
