import { impossible } from '../http/stripe-error.ts'
import { firstPeriod } from '../objects/billing-period.ts'
import type { Period } from '../objects/billing-period.ts'
import { newInvoiceItemLine, newLine } from '../objects/invoice-line.ts'
import { newItem } from '../objects/subscription.ts'
import type { Subscription } from '../objects/wire.ts'
import type { World } from '../world/world.ts'
import {
  chargeLine,
  creditedItems,
  creditLine,
  findItem,
  findRecurringPrice,
  sameInterval,
  settleChange,
} from './change-price.ts'
import type { Proration } from './change-price.ts'
import { periodOf } from './close-period.ts'
import { findLiveSubscription, findOwned } from './find.ts'
import { stateOf } from './subscription-state.ts'

export type NewItem = { price: string; quantity: number; proration: Proration }

/** The subscription gets another item, until the end of the period of those with the same interval. */
export function addItem(world: World, subscriptionId: string, wanted: NewItem): Subscription {
  const { account, object: subscription } = findLiveSubscription(world, subscriptionId)
  const price = findRecurringPrice(world, account, subscription, wanted.price)
  const { data } = subscription.items
  if (data.some((item) => item.price.id === price.id)) {
    throw impossible(`${subscriptionId} has an item with the price ${price.id} already`)
  }
  const before = structuredClone(subscription)
  const at = world.clock.now()
  const companion = data.find((item) => sameInterval(item.price, price))
  const period = companion ? periodOf(companion) : firstPeriod(at, price)
  const item = newItem(subscription.id, at, { price, quantity: wanted.quantity, period })
  data.push(item)
  const changing = { subscription, item, period, at, newPeriod: companion === undefined }
  return settleChange(world, account, changing, wanted.proration, [chargeLine(changing)], before)
}

/** What is left of its period is credited. */
export function removeItem(
  world: World,
  subscriptionId: string,
  itemId: string,
  proration: Proration,
): Subscription {
  const { account, object: subscription } = findLiveSubscription(world, subscriptionId)
  const item = findItem(subscription, itemId)
  if (subscription.items.data.length === 1) throw impossible('A subscription has at least one item.')
  const before = structuredClone(subscription)
  const changing = { subscription, item, period: periodOf(item), at: world.clock.now(), newPeriod: false }
  const credit = creditLine(changing, creditedItems(world, account, subscription, item))
  subscription.items.data = subscription.items.data.filter((each) => each !== item)
  return settleChange(world, account, changing, proration, [credit], before)
}

export type NewInvoiceItems = {
  amount: number
  price: string | undefined
  period: Partial<Period>
  count: number
}

/** What the vendor adds to the next invoice, the newest first, as Stripe lists them. */
export function addInvoiceItems(world: World, subscriptionId: string, wanted: NewInvoiceItems): Subscription {
  const { account, object: subscription } = findLiveSubscription(world, subscriptionId)
  const { amount, count } = wanted
  const price = wanted.price === undefined ? null : findOwned(world.prices, 'price', account, wanted.price)
  const now = world.clock.now()
  const { start = now, end = start } = wanted.period
  const { pendingLines } = stateOf(world, account, subscription.id)
  for (let added = 1; added <= count; added += 1) {
    const description = `Invoice item ${added}`
    const period = { start, end }
    pendingLines.unshift(newInvoiceItemLine({ subscription, amount, description, period, price }))
  }
  return subscription
}

/** Every item is free until then, and begins its periods there. */
export function startTrial(world: World, subscriptionId: string, until: number): Subscription {
  const { account, object: subscription } = findLiveSubscription(world, subscriptionId)
  const before = structuredClone(subscription)
  const at = world.clock.now()
  if (until <= at) throw impossible('A trial ends in the future.')
  const trial = { start: at, end: until }
  const lines = subscription.items.data.flatMap((item) => {
    const changing = { subscription, item, period: periodOf(item), at, newPeriod: true }
    const credit = creditLine(changing, creditedItems(world, account, subscription, item))
    Object.assign(item, { current_period_start: at, current_period_end: until })
    const free = {
      ...newLine({ subscription, item, price: item.price, period: trial }),
      amount: 0,
      subtotal: 0,
    }
    return [credit, free]
  })
  const [item] = subscription.items.data
  Object.assign(subscription, {
    billing_cycle_anchor: until,
    status: 'trialing',
    trial_start: at,
    trial_end: until,
  } satisfies Partial<Subscription>)
  const changing = { subscription, item: item!, period: trial, at, newPeriod: true }
  return settleChange(world, account, changing, 'always_invoice', lines, before)
}
