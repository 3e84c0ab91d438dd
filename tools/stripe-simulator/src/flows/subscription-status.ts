import type { Subscription } from '../objects/wire.ts'
import type { Owner } from '../world/collection.ts'
import type { World } from '../world/world.ts'
import { findOwned } from './find.ts'

/** Makes the change and tells it with the values from before, as `customer.subscription.updated` does. */
export function updateSubscription(
  world: World,
  account: Owner,
  subscription: Subscription,
  change: Partial<Subscription>,
): void {
  const names = Object.keys(change) as (keyof Subscription)[]
  const previous = Object.fromEntries(names.map((name) => [name, subscription[name]]))
  Object.assign(subscription, change)
  world.emitter.emit(account, 'customer.subscription.updated', subscription, previous)
}

export function markPastDue(world: World, account: Owner, subscriptionId: string): void {
  const subscription = findOwned(world.subscriptions, 'subscription', account, subscriptionId)
  if (subscription.status === 'active') {
    updateSubscription(world, account, subscription, { status: 'past_due' })
  }
}

export type EndReason = 'cancellation_requested' | 'payment_failed' | 'payment_disputed'

export function endSubscription(
  world: World,
  account: Owner,
  subscription: Subscription,
  reason: EndReason,
): void {
  const now = world.clock.now()
  subscription.status = 'canceled'
  subscription.canceled_at ??= now
  subscription.ended_at = now
  subscription.cancellation_details = cancellationDetails(reason)
  world.emitter.emit(account, 'customer.subscription.deleted', subscription)
}

export function cancellationDetails(reason: EndReason | null): Subscription['cancellation_details'] {
  return { comment: null, feedback: null, feedback_option: null, reason }
}
