import { newSubscriptionState } from '../objects/subscription-state.ts'
import type { SubscriptionState } from '../objects/subscription-state.ts'
import type { Owner } from '../world/collection.ts'
import type { World } from '../world/world.ts'

export function stateOf(world: World, account: Owner, subscription: string): SubscriptionState {
  const known = world.subscriptionStates.find(account, subscription)
  if (known !== undefined) return known
  return world.subscriptionStates.add(account, newSubscriptionState(subscription, world.clock.now()))
}
