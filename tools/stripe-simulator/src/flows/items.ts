import { impossible } from '../api/errors.ts'
import { emit } from '../events.ts'
import { firstPeriod, type Period } from '../objects/billing-period.ts'
import { newInvoiceItemLine, newLine, type CreditedItems } from '../objects/invoice-line.ts'
import { newItem, planOf } from '../objects/subscription.ts'
import type { InvoiceLine, Price, Subscription, SubscriptionItem } from '../objects/wire.ts'
import { need, ownerOf, priceKey, type World } from '../world.ts'
import { draftInvoice, ledgerOf } from './invoice.ts'
import { buyer, payInvoice, periodOf } from './subscription.ts'

/** `always_invoice` settles at once, `create_prorations` with the next invoice, `none` never. */
export const prorations = ['always_invoice', 'create_prorations', 'none'] as const
type Proration = (typeof prorations)[number]

type Changing = {
  subscription: Subscription
  item: SubscriptionItem
  /** The period that contains the change. */
  period: Period
  /** Whether the change begins a new period at once. */
  newPeriod: boolean
}

/** Adds an item to the subscription. Its first period ends with the current period of the items with the same interval. */
export function addItem(
  world: World,
  subscription: Subscription,
  priceId: string,
  proration: Proration,
): Subscription {
  const price = findRecurringPrice(world, subscription, priceId)
  const { data } = subscription.items
  if (data.some((each) => each.price.id === price.id)) {
    throw impossible(`${subscription.id} has an item with the price ${price.id} already`)
  }
  const before = structuredClone(subscription)
  const companion = data.find((each) => sameInterval(each.price, price))
  const period = companion ? periodOf(companion) : firstPeriod(world.now, price)
  const item = newItem(subscription.id, world.now, { price, quantity: 1, period })
  data.push(item)
  const changing = { subscription, item, period, newPeriod: companion === undefined }
  return settleChange(world, changing, proration, [chargeLine(world, changing)], before)
}

/** Removes an item, and credits the rest of its period. */
export function removeItem(
  world: World,
  subscription: Subscription,
  itemId: string,
  proration: Proration,
): Subscription {
  const { data } = subscription.items
  const item = data.find((each) => each.id === itemId)
  if (item === undefined) throw impossible(`${subscription.id} has no item ${itemId}`)
  if (data.length === 1) throw impossible('A subscription has at least one item.')
  const before = structuredClone(subscription)
  const changing = { subscription, item, period: periodOf(item), newPeriod: false }
  const credit = creditLine(world, changing)
  subscription.items.data = data.filter((each) => each !== item)
  return settleChange(world, changing, proration, [credit], before)
}

/** Changes the price of the first item in the middle of a period. A price with another interval begins a new period. */
export function changePrice(
  world: World,
  subscription: Subscription,
  priceId: string,
  proration: Proration,
): Subscription {
  const item = subscription.items.data[0]!
  const price = findRecurringPrice(world, subscription, priceId)
  const before = structuredClone(subscription)
  const newPeriod = !sameInterval(item.price, price)
  const changing = { subscription, item, period: periodOf(item), newPeriod }
  const credit = creditLine(world, changing)
  item.price = structuredClone(price)
  item.plan = planOf(price)
  if (newPeriod) {
    subscription.billing_cycle_anchor = world.now
    item.current_period_start = world.now
    item.current_period_end = firstPeriod(world.now, price).end
  }
  return settleChange(world, changing, proration, [credit, chargeLine(world, changing)], before)
}

/** Adds the vendor's own items to the next invoice, newest first, as Stripe lists them. */
export function addInvoiceItems(world: World, subscription: Subscription, count: number): Subscription {
  const { pendingLines } = ledgerOf(world, subscription)
  const period = { start: world.now, end: world.now }
  for (let added = 1; added <= count; added += 1) {
    pendingLines.unshift(newInvoiceItemLine(subscription, 100, `Invoice item ${added}`, period))
  }
  return subscription
}

function findRecurringPrice(world: World, subscription: Subscription, id: string): Price {
  const { price } = need(world.prices, 'price', priceKey(ownerOf(world, subscription), id))
  if (price.recurring !== null && price.currency === subscription.currency) return price
  throw impossible(`${price.id} is no recurring price in ${subscription.currency}`)
}

/** Invoices the lines of a change now or later, and emits its event. @param before the subscription before the change */
function settleChange(
  world: World,
  { subscription, period, newPeriod }: Changing,
  proration: Proration,
  lines: InvoiceLine[],
  before: Subscription,
): Subscription {
  const isNow = proration === 'always_invoice' || newPeriod
  if (!isNow && proration === 'create_prorations') ledgerOf(world, subscription).pendingLines.push(...lines)
  const invoice = isNow
    ? draftInvoice(world, {
        reason: 'subscription_update',
        subscription,
        email: buyer,
        lines: proration === 'none' ? lines.filter((line) => line.amount >= 0) : lines,
        closes: { start: period.start, end: world.now },
        finalizesAt: null,
      })
    : undefined
  const { items, latest_invoice, billing_cycle_anchor } = before
  emit(world, 'customer.subscription.updated', subscription, {
    items,
    ...(invoice && { latest_invoice }),
    ...(billing_cycle_anchor !== subscription.billing_cycle_anchor && { billing_cycle_anchor }),
  })
  if (invoice) payInvoice(world, subscription, invoice)
  return subscription
}

function sameInterval({ recurring: one }: Price, { recurring: other }: Price): boolean {
  return one?.interval === other?.interval && one?.interval_count === other?.interval_count
}

function creditLine(world: World, changing: Changing): InvoiceLine {
  const { subscription, item, period } = changing
  return newLine({
    subscription,
    item,
    period: { start: world.now, end: period.end },
    proration: {
      amount: -shareLeft(world, changing),
      description: `Unused time on ${item.price.id}`,
      creditedItems: creditedItems(world, subscription, item),
    },
  })
}

function chargeLine(world: World, changing: Changing): InvoiceLine {
  const { subscription, item, newPeriod } = changing
  const period = { start: world.now, end: item.current_period_end }
  if (newPeriod) return newLine({ subscription, item, period })
  const amount = shareLeft(world, changing)
  const description = `Remaining time on ${item.price.id}`
  return newLine({ subscription, item, period, proration: { amount, description, creditedItems: null } })
}

/** The part of the item's price for the rest of the period, to the second, rounded to the nearest minor unit. */
function shareLeft(world: World, { item, period }: Changing): number {
  const left = Math.max(0, period.end - world.now) / (period.end - period.start)
  return Math.round((item.price.unit_amount ?? 0) * (item.quantity ?? 1) * Math.min(1, left))
}

/** The invoice lines that paid for the item's present period; null if there are none. */
function creditedItems(
  world: World,
  subscription: Subscription,
  item: SubscriptionItem,
): CreditedItems | null {
  const paid = (invoice: { lines: { data: InvoiceLine[] } }) =>
    invoice.lines.data.filter((line) => line.period.end === item.current_period_end && line.amount > 0)
  const paidFor = [...world.invoices.values()].findLast(
    (invoice) =>
      invoice.parent?.subscription_details?.subscription === subscription.id && paid(invoice).length > 0,
  )
  if (paidFor === undefined) return null
  return { invoice: paidFor.id, invoice_line_items: paid(paidFor).map(({ id }) => id) }
}
