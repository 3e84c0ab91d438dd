import { newId } from '../ids.ts'
import type { Period } from './billing-period.ts'
import type { InvoiceLine, Subscription, SubscriptionItem } from './wire.ts'

type Details = NonNullable<NonNullable<InvoiceLine['parent']>['subscription_item_details']>
export type CreditedItems = NonNullable<NonNullable<Details['proration_details']>['credited_items']>

type Proration = {
  amount: number
  description: string
  /** The invoice line that a credit refers to; null for a charge. */
  creditedItems: CreditedItems | null
}

type NewLine = {
  subscription: Subscription
  item: SubscriptionItem
  period: Period
  /** If absent, the line charges the whole period at the price. */
  proration?: Proration
}

/** A line for an item that a vendor adds to the next invoice. It has its own period, and is not an item of the subscription. */
export function newInvoiceItemLine(
  subscription: Subscription,
  amount: number,
  description: string,
  period: Period,
): InvoiceLine {
  return {
    ...emptyLine(subscription, { amount, description, period }),
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
  }
}

/** A line that is not on an invoice yet. */
export function newLine({ subscription, item, period, proration }: NewLine): InvoiceLine {
  const { price } = item
  const quantity = item.quantity ?? 1
  const amount = proration?.amount ?? (price.unit_amount ?? 0) * quantity
  const description = proration?.description ?? `${quantity} x ${price.id}`
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
    pricing: {
      price_details: { price: price.id, product: price.product },
      type: 'price_details',
      unit_amount_decimal: price.unit_amount_decimal,
    },
    quantity,
    quantity_decimal: String(quantity),
  }
}

function emptyLine(
  subscription: Subscription,
  { amount, description, period }: { amount: number; description: string; period: Period },
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
