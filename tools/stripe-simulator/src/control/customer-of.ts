import type { World } from '../world/world.ts'

/** The customer whom an action concerns, by the id of anything of theirs: the action happens in their time. */
export function customerOf(world: World, ids: unknown[]): string | null {
  for (const id of ids) {
    if (typeof id !== 'string') continue
    const customer = customerBehind(world, id)
    if (customer) return customer
  }
  return null
}

function customerBehind(world: World, id: string): string | null | undefined {
  const chargeId =
    world.refunds.findAnywhere(id)?.object.charge ?? world.disputes.findAnywhere(id)?.object.charge ?? id
  return (
    world.subscriptions.findAnywhere(id)?.object.customer ??
    world.sessions.findAnywhere(id)?.object.customer ??
    world.invoices.findAnywhere(id)?.object.customer ??
    world.paymentIntents.findAnywhere(id)?.object.customer ??
    world.charges.findAnywhere(chargeId)?.object.customer
  )
}
