import type { World } from './world.ts'

const collections = [
  'prices',
  'sessions',
  'checkoutPlans',
  'paymentIntents',
  'charges',
  'refunds',
  'disputes',
  'applicationFees',
  'subscriptions',
  'invoices',
  'invoicePayments',
  'events',
] as const

/** The whole world as plain JSON. */
export function dumpWorld(world: World) {
  return {
    clock: world.clock.setting(),
    deauthorized: [...world.deauthorized],
    collections: Object.fromEntries(collections.map((name) => [name, world[name].dump()])),
  }
}

export function restoreWorld(world: World, saved: ReturnType<typeof dumpWorld>): void {
  world.clock.restore(saved.clock)
  world.deauthorized.clear()
  for (const account of saved.deauthorized) world.deauthorized.add(account)
  // The dump came from these very collections, name by name.
  for (const name of collections) world[name].restore((saved.collections[name] ?? []) as never[])
}
