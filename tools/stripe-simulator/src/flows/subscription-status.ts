import { impossible } from '../http/stripe-error.ts'
import { newSubscriptionState, type SubscriptionState } from '../objects/subscription.ts'
import type { Subscription } from '../objects/wire.ts'
import type { Owner } from '../world/collection.ts'
import type { World } from '../world/world.ts'
import { findOwned } from './find.ts'

/** Makes the change, and emits `customer.subscription.updated` with the previous values. */
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

type EndReason = 'cancellation_requested' | 'payment_failed' | 'payment_disputed'

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

function cancellationDetails(reason: EndReason | null): Subscription['cancellation_details'] {
  return { comment: null, feedback: null, feedback_option: null, reason }
}

/** Cancels a subscription at the end of its period. Until then it stays active. */
export function cancelAtPeriodEnd(world: World, account: Owner, subscription: Subscription): void {
  const [item] = subscription.items.data
  if (subscription.cancel_at_period_end || item === undefined) return
  updateSubscription(world, account, subscription, {
    cancel_at: item.current_period_end,
    cancel_at_period_end: true,
    canceled_at: world.clock.now(),
    cancellation_details: cancellationDetails('cancellation_requested'),
  })
}

export function undoCancel(world: World, account: Owner, subscription: Subscription): void {
  if (!subscription.cancel_at_period_end) throw impossible(`${subscription.id} is not booked to end`)
  updateSubscription(world, account, subscription, {
    cancel_at: null,
    cancel_at_period_end: false,
    canceled_at: null,
    cancellation_details: cancellationDetails(null),
  })
}

export function stateOf(world: World, account: Owner, subscription: string): SubscriptionState {
  const known = world.subscriptionStates.find(account, subscription)
  if (known !== undefined) return known
  return world.subscriptionStates.add(account, newSubscriptionState(subscription, world.clock.now()))
}
