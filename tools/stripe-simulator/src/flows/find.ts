import { impossible, noSuch } from '../http/stripe-error.ts'
import type { Charge, Subscription } from '../objects/wire.ts'
import type { Collection, Owner, Stored } from '../world/collection.ts'
import type { World } from '../world/world.ts'

/** Finds an object of the account. An object of another account gets the same 404 as a missing object. */
export function findOwned<T extends { id: string; created: number }>(
  collection: Collection<T>,
  kind: string,
  account: Owner,
  id: string,
): T {
  const object = collection.find(account, id)
  if (object === undefined) throw noSuch(kind, id)
  return object
}

export function findAnywhere<T extends { id: string; created: number }>(
  collection: Collection<T>,
  kind: string,
  id: string,
): Stored<T> {
  const stored = collection.findAnywhere(id)
  if (stored === undefined) throw noSuch(kind, id)
  return stored
}

/** Finds a charge by its id, or by the id of its payment intent or checkout session. */
export function findPaidCharge(world: World, id: string): Stored<Charge> {
  const session = world.sessions.findAnywhere(id)?.object
  const intentId = session?.payment_intent ?? id
  const chargeId = world.paymentIntents.findAnywhere(intentId)?.object.latest_charge ?? id
  const stored = findAnywhere(world.charges, 'charge', chargeId)
  if (!stored.object.paid) throw impossible(`${chargeId} was not paid: it is ${stored.object.status}`)
  return stored
}

export function findLiveSubscription(world: World, id: string): Stored<Subscription> {
  const stored = findAnywhere(world.subscriptions, 'subscription', id)
  if (stored.object.status === 'canceled') throw impossible(`${id} has ended`)
  return stored
}
