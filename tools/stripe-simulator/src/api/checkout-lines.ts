import { findOwned } from '../flows/find.ts'
import type { LineItem } from '../objects/wire.ts'
import type { Owner } from '../world/collection.ts'
import type { World } from '../world/world.ts'

export function linesOf(world: World, account: Owner, sessionId: string): LineItem[] {
  const plan = findOwned(world.checkoutPlans, 'checkout session', account, sessionId)
  return plan.lines.map(({ lineId, price, quantity }) => {
    const amount = (price.unit_amount ?? 0) * quantity
    return {
      id: lineId,
      object: 'item',
      adjustable_quantity: null,
      amount_discount: 0,
      amount_subtotal: amount,
      amount_tax: 0,
      amount_total: amount,
      currency: price.currency,
      description: price.nickname ?? price.id,
      metadata: {},
      price: structuredClone(price),
      quantity,
    }
  })
}
