import { impossible } from '../http/stripe-error.ts'
import type { Subscription } from '../objects/wire.ts'
import type { Owner } from '../world/collection.ts'
import type { World } from '../world/world.ts'
import { cancellationDetails, updateSubscription } from './subscription-status.ts'

/** Booked to end with the period: until then the subscription stays active. */
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
