import { impossible } from '../http/stripe-error.ts'
import { firstPeriod, type Period } from '../objects/billing-period.ts'
import { nameOf, newInvoiceItemLine, newLine, type CreditedItems } from '../objects/invoice-line.ts'
import { newItem, planOf } from '../objects/subscription.ts'
import type { InvoiceLine, Price, Subscription, SubscriptionItem } from '../objects/wire.ts'
import type { Owner } from '../world/collection.ts'
import type { World } from '../world/world.ts'
import { draftInvoice, payInvoice } from './collect-invoice.ts'
import { findLiveSubscription, findOwned } from './find.ts'
import { periodOf } from './renew-subscription.ts'
import { stateOf } from './subscription-status.ts'

type NewItem = { price: string; quantity: number; proration: Proration }

/** Adds an item to the subscription. Its first period ends with the current period of the items with the same interval. */
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

/** Removes an item, and credits the rest of its period. */
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

type NewInvoiceItems = {
  amount: number
  price: string | undefined
  period: Partial<Period>
  count: number
}

/** Adds the vendor's own items to the next invoice, newest first, as Stripe lists them. */
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

/** Starts a trial: every item is free until its end, and its periods begin there. */
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

/** `always_invoice` settles at once, `create_prorations` with the next invoice, `none` never. */
export const prorations = ['always_invoice', 'create_prorations', 'none'] as const

export type Proration = (typeof prorations)[number]

type PriceChange = {
  /** The first item if no item is named. */
  item: string | undefined
  price: string
  quantity: number | undefined
  proration: Proration
}

type Changing = {
  subscription: Subscription
  item: SubscriptionItem
  /** The period that contains the change. */
  period: Period
  at: number
  /** Whether the change begins a new period at once. */
  newPeriod: boolean
}

/** Changes the price in the middle of a period, as a customer can in Stripe's customer portal. */
export function changePrice(world: World, subscriptionId: string, change: PriceChange): Subscription {
  const { account, object: subscription } = findLiveSubscription(world, subscriptionId)
  const item = findItem(subscription, change.item)
  const price = findRecurringPrice(world, account, subscription, change.price)
  const before = structuredClone(subscription)
  const changing = {
    subscription,
    item,
    period: periodOf(item),
    at: world.clock.now(),
    // A price with another interval begins a new period.
    newPeriod: !sameInterval(item.price, price),
  }
  const credit = creditLine(changing, creditedItems(world, account, subscription, item))
  putPrice(changing, price, change.quantity)
  const lines = [credit, chargeLine(changing)]
  return settleChange(world, account, changing, change.proration, lines, before)
}

function findItem({ id, items }: Subscription, itemId: string | undefined): SubscriptionItem {
  const item = itemId === undefined ? items.data[0] : items.data.find((each) => each.id === itemId)
  if (item === undefined) throw impossible(`${id} has no item ${itemId ?? ''}`)
  return item
}

function findRecurringPrice(world: World, account: Owner, subscription: Subscription, id: string): Price {
  const price = findOwned(world.prices, 'price', account, id)
  if (price.recurring !== null && price.currency === subscription.currency) return price
  throw impossible(`${price.id} is no recurring price in ${subscription.currency}`)
}

/** Invoices the lines of a change now or later, and emits its event. @param before the subscription before the change */
function settleChange(
  world: World,
  account: Owner,
  changing: Changing,
  proration: Proration,
  lines: InvoiceLine[],
  before: Subscription,
): Subscription {
  const { subscription } = changing
  const invoice = settleLines(world, account, changing, proration, lines)
  const { items, latest_invoice, billing_cycle_anchor } = before
  world.emitter.emit(account, 'customer.subscription.updated', subscription, {
    items,
    ...(invoice && { latest_invoice }),
    ...(billing_cycle_anchor !== subscription.billing_cycle_anchor && { billing_cycle_anchor }),
  })
  if (invoice === undefined) return subscription
  payInvoice(world, account, subscription, invoice)
  return subscription
}

function settleLines(
  world: World,
  account: Owner,
  { subscription, period, at, newPeriod }: Changing,
  proration: Proration,
  lines: InvoiceLine[],
) {
  if (proration !== 'always_invoice' && !newPeriod) {
    const { pendingLines } = stateOf(world, account, subscription.id)
    if (proration === 'create_prorations') pendingLines.push(...lines)
    return undefined
  }
  return draftInvoice(world, account, {
    reason: 'subscription_update',
    subscription,
    email: 'buyer@example.com',
    lines: proration === 'none' ? lines.filter((line) => line.amount >= 0) : lines,
    closes: { start: period.start, end: at },
    finalizesAt: null,
  })
}

function sameInterval({ recurring: one }: Price, { recurring: other }: Price): boolean {
  return one?.interval === other?.interval && one?.interval_count === other?.interval_count
}

function putPrice(
  { subscription, item, at, newPeriod }: Changing,
  price: Price,
  quantity: number | undefined,
): void {
  item.price = structuredClone(price)
  item.plan = planOf(price)
  item.quantity = quantity ?? item.quantity ?? 1
  if (!newPeriod) return
  const period = firstPeriod(at, price)
  subscription.billing_cycle_anchor = at
  item.current_period_start = period.start
  item.current_period_end = period.end
}

function creditLine(changing: Changing, credited: CreditedItems | null): InvoiceLine {
  const { subscription, item, period, at } = changing
  const amount = -shareLeft(changing, (item.price.unit_amount ?? 0) * (item.quantity ?? 1))
  const description = `Unused time on ${nameOf(item.price)}`
  const rest = { start: at, end: period.end }
  const proration = { amount, description, creditedItems: credited }
  return newLine({ subscription, item, price: structuredClone(item.price), period: rest, proration })
}

function chargeLine(changing: Changing): InvoiceLine {
  const { subscription, item, at, newPeriod } = changing
  const { price } = item
  const period = { start: at, end: item.current_period_end }
  if (newPeriod) return newLine({ subscription, item, price, period })
  const amount = shareLeft(changing, (price.unit_amount ?? 0) * (item.quantity ?? 1))
  const description = `Remaining time on ${nameOf(price)}`
  const proration = { amount, description, creditedItems: null }
  return newLine({ subscription, item, price, period, proration })
}

/** The part of the amount for the rest of the period, to the second, rounded to the nearest minor unit. */
function shareLeft({ period, at }: Changing, amount: number): number {
  const left = Math.max(0, period.end - at) / (period.end - period.start)
  return Math.round(amount * Math.min(1, left))
}

/** The invoice lines that paid for the item's present period; null if there are none. */
function creditedItems(
  world: World,
  account: Owner,
  subscription: Subscription,
  item: SubscriptionItem,
): CreditedItems | null {
  const paidFor = world.invoices.list(
    account,
    (invoice) =>
      invoice.parent?.subscription_details?.subscription === subscription.id &&
      invoice.lines.data.some((line) => line.period.end === item.current_period_end && line.amount > 0),
  )[0]
  if (paidFor === undefined) return null
  const lines = paidFor.lines.data.filter(
    (line) => line.period.end === item.current_period_end && line.amount > 0,
  )
  return { invoice: paidFor.id, invoice_line_items: lines.map(({ id }) => id) }
}
