import { invalidRequest } from '../http/stripe-error.ts'
import { newPrice } from '../objects/price.ts'
import type { NewPrice } from '../objects/price.ts'
import type { Metadata, Price } from '../objects/wire.ts'
import type { Owner } from '../world/collection.ts'
import type { World } from '../world/world.ts'

/** What the platform writes into a checkout session's metadata, so that its price needs no setting up here. */
export const agreedPriceKeys = {
  /** Minor units. */
  amount: 'licensing_amount',
  currency: 'licensing_currency',
  /** Months between two charges; absent on a one-off payment. */
  intervalCount: 'licensing_recurring_interval_count',
} as const

/**
 * The price of a checkout line. One that exists wins, as it would at Stripe; another is what the metadata says,
 * until it says otherwise.
 */
export function priceOfLine(world: World, account: Owner, id: string, metadata: Metadata): Price | undefined {
  const existing = world.prices.find(account, id)
  if (existing !== undefined && !isAgreed(world, account, id)) return existing
  const agreed = readAgreed(metadata)
  return agreed === undefined ? existing : addAgreedPrice(world, account, { ...agreed, id })
}

/** A price that exists by itself is left alone. */
export function addAgreedPrice(
  world: World,
  account: Owner,
  wanted: Omit<NewPrice, 'created'> & { id: string },
): Price {
  const existing = world.prices.find(account, wanted.id)
  if (existing !== undefined && !isAgreed(world, account, wanted.id)) return existing
  const created = existing?.created ?? world.clock.now()
  world.agreedPrices.add(account, { id: wanted.id, created })
  return world.prices.add(account, newPrice({ product: existing?.product, ...wanted, created }))
}

function isAgreed(world: World, account: Owner, id: string): boolean {
  return world.agreedPrices.find(account, id) !== undefined
}

function readAgreed(metadata: Metadata): Pick<NewPrice, 'unitAmount' | 'currency' | 'recurring'> | undefined {
  const { [agreedPriceKeys.amount]: amount, [agreedPriceKeys.currency]: currency } = metadata
  if (amount === undefined || currency === undefined) return undefined
  const intervalCount = metadata[agreedPriceKeys.intervalCount]
  if (
    !/^\d{1,12}$/.test(amount) ||
    !/^[a-z]{3}$/.test(currency) ||
    !/^([1-9]\d?)?$/.test(intervalCount ?? '')
  ) {
    throw invalidRequest(`Not an agreed price: ${amount} ${currency}, every ${intervalCount ?? 0} months.`, {
      param: 'metadata',
    })
  }
  return {
    unitAmount: Number(amount),
    currency,
    recurring: intervalCount ? { interval: 'month', intervalCount: Number(intervalCount) } : null,
  }
}
