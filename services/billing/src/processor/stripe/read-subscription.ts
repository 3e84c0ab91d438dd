import type { EndScheduledFact, SubscriptionEndedFact, SubscriptionFact, SubscriptionItem } from '../facts.ts'
import { NotUnderstood } from '../processor.ts'
import { sessionIdIn } from './read.ts'
import { idIn, listIn, optionalTime, textIn, timeIn } from './shape.ts'
import type { Shape } from './shape.ts'

export function readSubscription(object: Shape): SubscriptionFact {
  return {
    kind: 'subscription',
    subscriptionRef: textIn(object, 'id'),
    sessionId: sessionIdIn(object),
    items: readItems(listIn(object, 'items')),
    endsAt: scheduledEnd(object),
    endSetAt: optionalTime(object, 'canceled_at') ?? null,
  }
}

/** When a subscription is set to end: at a time of its own, or with its period. */
function scheduledEnd(object: Shape): number | null {
  const cancelAt = optionalTime(object, 'cancel_at')
  if (cancelAt !== undefined) return cancelAt
  if (object['cancel_at_period_end'] !== true) return null
  const ends = listIn(object, 'items').map((item) => timeIn(item, 'current_period_end'))
  if (ends.length === 0) throw new NotUnderstood('items is empty')
  return Math.max(...ends)
}

/** @returns undefined if the end of the subscription did not change */
export function readScheduledEnd(object: Shape, at: number, previous: Shape): EndScheduledFact | undefined {
  if (!('cancel_at' in previous || 'cancel_at_period_end' in previous)) return undefined
  const [endsAt, endsAtBefore] = [scheduledEnd(object), scheduledEnd({ ...object, ...previous })]
  if (endsAt === endsAtBefore) return undefined
  return {
    kind: 'end_scheduled',
    subscriptionRef: textIn(object, 'id'),
    sessionId: sessionIdIn(object),
    endsAt,
    endsAtBefore,
    at,
  }
}

export function readItems(items: Shape[]): SubscriptionItem[] {
  return items.map((item) => ({
    itemRef: textIn(item, 'id'),
    priceRef: idIn(item, 'price'),
    periodEnd: timeIn(item, 'current_period_end'),
    createdAt: timeIn(item, 'created'),
  }))
}

export function readEndedSubscription(object: Shape, at: number): SubscriptionEndedFact {
  return {
    kind: 'subscription_ended',
    subscriptionRef: textIn(object, 'id'),
    sessionId: sessionIdIn(object),
    endedAt: optionalTime(object, 'ended_at') ?? at,
  }
}
