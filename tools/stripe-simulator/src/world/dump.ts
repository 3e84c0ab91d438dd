import type { World } from './world.ts'

const collections = [
  'prices',
  'agreedPrices',
  'sessions',
  'checkoutPlans',
  'paymentIntents',
  'charges',
  'openCaptures',
  'refunds',
  'disputes',
  'applicationFees',
  'subscriptions',
  'subscriptionStates',
  'invoices',
  'invoicePayments',
  'webhookEndpoints',
  'events',
] as const

/** The whole world as plain JSON. */
export function dumpWorld(world: World) {
  return {
    clock: world.clock.setting(),
    settings: world.settings.dump(),
    deauthorized: [...world.deauthorized],
    collections: Object.fromEntries(collections.map((name) => [name, world[name].dump()])),
  }
}

type Saved = Omit<ReturnType<typeof dumpWorld>, 'settings'> & Partial<ReturnType<typeof dumpWorld>>

export function restoreWorld(world: World, saved: Saved): void {
  world.clock.restore(saved.clock)
  world.settings.restore(saved.settings ?? {})
  world.deauthorized.clear()
  world.consents.clear()
  for (const account of saved.deauthorized) world.deauthorized.add(account)
  // The dump came from these very collections, name by name.
  for (const name of collections) world[name].restore((saved.collections[name] ?? []) as never[])
}
