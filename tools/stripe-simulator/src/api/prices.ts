import type { Params } from '../http/params.ts'
import { invalidRequest } from '../http/stripe-error.ts'
import { newPrice, type NewPrice } from '../objects/price.ts'
import type { Price } from '../objects/wire.ts'
import type { Owner } from '../world/collection.ts'
import type { World } from '../world/world.ts'
import { readList, readOne, type Call } from './call.ts'
import { inlinePrice } from './checkout-parameters.ts'
import { priceCreate, priceList } from './parameters.ts'

export function createPrice({ world, account, params }: Call): object {
  params.accept(priceCreate)
  return addPrice(world, account, {
    ...readMoney(params),
    ...readProduct(params),
    nickname: params.string('nickname'),
    metadata: params.metadata('metadata'),
  })
}

export const getPrice = readOne('prices', 'price')

export const listPrices = readList('/v1/prices', 'prices', priceList)

/** `line_items[][price_data]`: a price for one checkout. */
export function readInlinePrice(params: Params): Omit<NewPrice, 'created'> {
  params.accept(inlinePrice)
  return { ...readMoney(params), ...readProduct(params) }
}

export function addPrice(world: World, account: Owner, wanted: Omit<NewPrice, 'created'>): Price {
  return world.prices.add(account, newPrice({ ...wanted, created: world.clock.now() }))
}

export function readMoney(params: Params): Pick<NewPrice, 'currency' | 'unitAmount' | 'recurring'> {
  const currency = params.required('currency')
  if (!/^[a-z]{3}$/.test(currency)) {
    throw invalidRequest(`Invalid currency: ${currency}. Three lower-case letters.`, {
      param: params.name('currency'),
    })
  }
  const recurring = params.object('recurring')?.only('interval', 'interval_count')
  const interval = recurring?.oneOf('interval', ['day', 'week', 'month', 'year'])
  if (recurring !== undefined && interval === undefined) throw recurring.missing('interval')
  return {
    currency,
    unitAmount: params.requiredInteger('unit_amount'),
    recurring:
      interval === undefined
        ? null
        : { interval, intervalCount: recurring?.integer('interval_count', 1) ?? 1 },
  }
}

function readProduct(params: Params): Pick<NewPrice, 'product' | 'nickname'> {
  const name = params.object('product_data')?.only('name').required('name')
  const product = params.string('product')
  if (product === undefined && name === undefined) throw params.missing('product')
  return { product, nickname: name }
}
