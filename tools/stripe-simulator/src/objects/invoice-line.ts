import { newId } from '../world/ids.ts'
import type { Period } from './billing-period.ts'
import type { InvoiceLine, Price, Subscription, SubscriptionItem } from './wire.ts'

type Details = NonNullable<NonNullable<InvoiceLine['parent']>['subscription_item_details']>
export type CreditedItems = NonNullable<NonNullable<Details['proration_details']>['credited_items']>

export type Proration = {
  amount: number
  description: string
  /** The invoice line that a credit refers to; null for a charge. */
  creditedItems: CreditedItems | null
}

type NewLine = {
  subscription: Subscription
  item: SubscriptionItem
  price: Price
  period: Period
  /** If absent, the line charges the whole period at the price. */
  proration?: Proration
}

type NewInvoiceItem = {
  subscription: Subscription
  amount: number
  description: string
  period: Period
  price: Price | null
}

/** A line for an item that a vendor adds to the next invoice. It has its own period, and is not an item of the subscription. */
export function newInvoiceItemLine({ subscription, price, ...wanted }: NewInvoiceItem): InvoiceLine {
  return {
    ...emptyLine(subscription, wanted),
    parent: {
      invoice_item_details: {
        invoice_item: newId('ii'),
        proration: false,
        proration_details: { credited_items: null },
        subscription: subscription.id,
      },
      subscription_item_details: null,
      type: 'invoice_item_details',
    },
    pricing: price && pricingOf(price),
  }
}

/** A line that is not on an invoice yet. `onInvoice` adds it to one. */
export function newLine({ subscription, item, price, period, proration }: NewLine): InvoiceLine {
  const quantity = item.quantity ?? 1
  const amount = proration?.amount ?? (price.unit_amount ?? 0) * quantity
  const description = proration?.description ?? `${quantity} x ${nameOf(price)}`
  return {
    ...emptyLine(subscription, { amount, description, period }),
    discountable: proration === undefined,
    parent: {
      invoice_item_details: null,
      subscription_item_details: {
        invoice_item: proration === undefined ? null : newId('ii'),
        proration: proration !== undefined,
        proration_details: { credited_items: proration?.creditedItems ?? null },
        subscription: subscription.id,
        subscription_item: item.id,
      },
      type: 'subscription_item_details',
    },
    pricing: pricingOf(price),
    quantity,
    quantity_decimal: String(quantity),
  }
}

function emptyLine(
  subscription: Subscription,
  { amount, description, period }: Pick<NewInvoiceItem, 'amount' | 'description' | 'period'>,
): InvoiceLine {
  return {
    id: newId('il'),
    object: 'line_item',
    amount,
    currency: subscription.currency,
    description,
    discount_amounts: [],
    discountable: true,
    discounts: [],
    invoice: null,
    livemode: false,
    metadata: { ...subscription.metadata },
    parent: null,
    period: { end: period.end, start: period.start },
    pretax_credit_amounts: [],
    pricing: null,
    quantity: 1,
    quantity_decimal: '1',
    subscription: subscription.id,
    subtotal: amount,
    taxes: [],
  }
}

function pricingOf(price: Price): NonNullable<InvoiceLine['pricing']> {
  return {
    price_details: { price: price.id, product: price.product },
    type: 'price_details',
    unit_amount_decimal: price.unit_amount_decimal,
  }
}

export function onInvoice(invoice: string, lines: InvoiceLine[]): InvoiceLine[] {
  return lines.map((line) => ({ ...line, invoice }))
}

export function nameOf(price: Price): string {
  return price.id
}
