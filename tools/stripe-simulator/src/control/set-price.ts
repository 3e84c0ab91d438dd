import { readMoney } from '../api/prices.ts'
import type { Params } from '../http/params.ts'
import { newPrice } from '../objects/price.ts'
import type { World } from '../world/world.ts'

/**
 * Makes a price known under an id of the caller's choosing, as the vendor would at Stripe. It stands against what any
 * checkout says it was agreed at. Repeating it brings the price up to date.
 */
export function setPrice(world: World, params: Params): object {
  params.only(
    'id',
    'account',
    'active',
    'unit_amount',
    'currency',
    'recurring',
    'nickname',
    'metadata',
    'product',
  )
  const account = params.string('account') ?? null
  const id = params.required('id')
  const existing = world.prices.find(account, id)
  const price = newPrice({
    id,
    created: existing?.created ?? world.clock.now(),
    ...readMoney(params),
    product: params.string('product') ?? existing?.product,
    nickname: params.string('nickname') ?? existing?.nickname ?? undefined,
    metadata: params.has('metadata') ? params.metadata('metadata') : (existing?.metadata ?? undefined),
  })
  price.active = params.boolean('active') ?? true
  world.agreedPrices.forget(account, id)
  return world.prices.add(account, price)
}
